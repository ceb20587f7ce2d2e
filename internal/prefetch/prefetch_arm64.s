#include "textflag.h"

// func Line(p unsafe.Pointer)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVD p+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func Beyond(p unsafe.Pointer, offset uintptr)
TEXT ·Beyond(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD offset+8(FP), R1
	ADD R1, R0
	PRFM (R0), PLDL1KEEP
	RET

// func Lines(p unsafe.Pointer, size uintptr)
TEXT ·Lines(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD size+8(FP), R1
	ADD R0, R1
	AND $-64, R0
next:
	CMP R1, R0
	BHS done
	PRFM (R0), PLDL1KEEP
	ADD $64, R0
	B next
done:
	RET
