#include "textflag.h"

// func Line(p unsafe.Pointer)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVQ p+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func Beyond(p unsafe.Pointer, offset uintptr)
TEXT ·Beyond(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	ADDQ offset+8(FP), AX
	PREFETCHT0 (AX)
	RET

// func Lines(p unsafe.Pointer, size uintptr)
TEXT ·Lines(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ size+8(FP), BX
	ADDQ AX, BX
	ANDQ $-64, AX
next:
	CMPQ AX, BX
	JAE  done
	PREFETCHT0 (AX)
	ADDQ $64, AX
	JMP  next
done:
	RET
