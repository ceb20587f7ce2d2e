#include "textflag.h"

#define OSHLD $1
#define OSHST $2
#define OSH $3
#define ST $14

// func ring(record *uint32, word uint32, doorbell *uint64, value uint64)
TEXT ·ring(SB), NOSPLIT, $0-32
	MOVD record+0(FP), R0
	MOVW word+8(FP), R1
	MOVD doorbell+16(FP), R2
	MOVD value+24(FP), R3
	DMB OSHST
	MOVW R1, (R0)
	DSB ST
	MOVD R3, (R2)
	DSB ST
	RET

// func publish(record *uint32, word uint32)
TEXT ·publish(SB), NOSPLIT, $0-12
	MOVD record+0(FP), R0
	MOVW word+8(FP), R1
	DMB OSH
	MOVW R1, (R0)
	RET

// func acquire()
TEXT ·acquire(SB), NOSPLIT, $0-0
	DMB OSHLD
	RET
