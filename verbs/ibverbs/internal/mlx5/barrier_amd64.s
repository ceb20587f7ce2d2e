#include "textflag.h"

// func ring(record *uint32, word uint32, doorbell *uint64, value uint64)
TEXT ·ring(SB), NOSPLIT, $0-32
	MOVQ record+0(FP), AX
	MOVL word+8(FP), CX
	MOVQ doorbell+16(FP), BX
	MOVQ value+24(FP), DX
	MOVL CX, (AX)
	SFENCE
	MOVQ DX, (BX)
	SFENCE
	RET

// func publish(record *uint32, word uint32)
TEXT ·publish(SB), NOSPLIT, $0-12
	MOVQ record+0(FP), AX
	MOVL word+8(FP), CX
	MOVL CX, (AX)
	RET
