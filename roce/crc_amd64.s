#include "textflag.h"

// Constants to take a CRC's remainder over a distance of D bits:
// x^(D+32) and x^(D-32) modulo the CRC-32's polynomial, bits reflected and moved up
// by one, for the low and the high half of 16 bytes.
DATA fold1024<>+0(SB)/8, $0x1e88ef372
DATA fold1024<>+8(SB)/8, $0x14a7fe880
DATA fold1024<>+16(SB)/8, $0x1e88ef372
DATA fold1024<>+24(SB)/8, $0x14a7fe880
GLOBL fold1024<>(SB), RODATA|NOPTR, $32
DATA fold256<>+0(SB)/8, $0x0f1da05aa
DATA fold256<>+8(SB)/8, $0x15a546366
DATA fold256<>+16(SB)/8, $0x0f1da05aa
DATA fold256<>+24(SB)/8, $0x15a546366
GLOBL fold256<>(SB), RODATA|NOPTR, $32
DATA fold128<>+0(SB)/8, $0x1751997d0
DATA fold128<>+8(SB)/8, $0x0ccaa009e
GLOBL fold128<>(SB), RODATA|NOPTR, $16

// The same over 512 bits at a time: for four accumulators of 64 bytes, to bring them
// together, and to bring the 16-byte lanes of one together, of which the last stays.
DATA fold2048<>+0(SB)/8, $0x11542778a
DATA fold2048<>+8(SB)/8, $0x1322d1430
GLOBL fold2048<>(SB), RODATA|NOPTR, $16
DATA fold512<>+0(SB)/8, $0x154442bd4
DATA fold512<>+8(SB)/8, $0x1c6e41596
GLOBL fold512<>(SB), RODATA|NOPTR, $16
DATA foldLanes<>+0(SB)/8, $0x03db1ecdc
DATA foldLanes<>+8(SB)/8, $0x174359406
DATA foldLanes<>+16(SB)/8, $0x0f1da05aa
DATA foldLanes<>+24(SB)/8, $0x15a546366
DATA foldLanes<>+32(SB)/8, $0x1751997d0
DATA foldLanes<>+40(SB)/8, $0x0ccaa009e
DATA foldLanes<>+48(SB)/8, $0
DATA foldLanes<>+56(SB)/8, $0
GLOBL foldLanes<>(SB), RODATA|NOPTR, $64

// FOLD takes acc over the distance that Y0 is for, and adds what lies there.
#define FOLD(acc, there, tmp) \
	VPCLMULQDQ $0x00, Y0, acc, tmp; \
	VPCLMULQDQ $0x11, Y0, acc, acc; \
	VPXOR      tmp, there, tmp;     \
	VPXOR      tmp, acc, acc

// REDUCE makes 16 bytes in X4 of 128 in Y1 to Y4.
#define REDUCE \
	VMOVDQU      fold256<>(SB), Y0; \
	FOLD(Y1, Y2, Y5);               \
	FOLD(Y1, Y3, Y5);               \
	FOLD(Y1, Y4, Y5);               \
	VEXTRACTI128 $1, Y1, X4;        \
	VMOVDQU      fold128<>(SB), X0; \
	VPCLMULQDQ   $0x00, X0, X1, X5; \
	VPCLMULQDQ   $0x11, X0, X1, X1; \
	VPXOR        X5, X4, X4;        \
	VPXOR        X1, X4, X4

// func crcFold(src *byte, n int, s uint32) (lo, hi uint64)
TEXT ·crcFold(SB), NOSPLIT, $0-40
	MOVQ    src+0(FP), SI
	MOVQ    n+8(FP), CX
	MOVL    s+16(FP), AX
	VMOVD   AX, X0
	VMOVDQU (SI), Y1
	VMOVDQU 32(SI), Y2
	VMOVDQU 64(SI), Y3
	VMOVDQU 96(SI), Y4
	VPXOR   Y0, Y1, Y1
	VMOVDQU fold1024<>(SB), Y0
	ADDQ    $128, SI
	SUBQ    $128, CX
	JZ      reduce

	PCALIGN $32
loop:
	VMOVDQU (SI), Y9
	VMOVDQU 32(SI), Y10
	VMOVDQU 64(SI), Y11
	VMOVDQU 96(SI), Y12
	FOLD(Y1, Y9, Y5)
	FOLD(Y2, Y10, Y6)
	FOLD(Y3, Y11, Y7)
	FOLD(Y4, Y12, Y8)
	ADDQ    $128, SI
	SUBQ    $128, CX
	JNZ     loop

reduce:
	REDUCE
	VMOVQ   X4, lo+24(FP)
	VPEXTRQ $1, X4, hi+32(FP)
	VZEROUPPER
	RET

// func crcFoldCopy(dst, src *byte, n int, s uint32) (lo, hi uint64)
TEXT ·crcFoldCopy(SB), NOSPLIT, $0-48
	MOVQ    dst+0(FP), DI
	MOVQ    src+8(FP), SI
	MOVQ    n+16(FP), CX
	MOVL    s+24(FP), AX
	VMOVD   AX, X0
	VMOVDQU (SI), Y1
	VMOVDQU 32(SI), Y2
	VMOVDQU 64(SI), Y3
	VMOVDQU 96(SI), Y4
	VMOVDQU Y1, (DI)
	VMOVDQU Y2, 32(DI)
	VMOVDQU Y3, 64(DI)
	VMOVDQU Y4, 96(DI)
	VPXOR   Y0, Y1, Y1
	VMOVDQU fold1024<>(SB), Y0
	ADDQ    $128, SI
	ADDQ    $128, DI
	SUBQ    $128, CX
	JZ      reduce

	PCALIGN $32
loop:
	VMOVDQU (SI), Y9
	VMOVDQU 32(SI), Y10
	VMOVDQU 64(SI), Y11
	VMOVDQU 96(SI), Y12
	VMOVDQU Y9, (DI)
	VMOVDQU Y10, 32(DI)
	VMOVDQU Y11, 64(DI)
	VMOVDQU Y12, 96(DI)
	FOLD(Y1, Y9, Y5)
	FOLD(Y2, Y10, Y6)
	FOLD(Y3, Y11, Y7)
	FOLD(Y4, Y12, Y8)
	ADDQ    $128, SI
	ADDQ    $128, DI
	SUBQ    $128, CX
	JNZ     loop

reduce:
	REDUCE
	VMOVQ   X4, lo+32(FP)
	VPEXTRQ $1, X4, hi+40(FP)
	VZEROUPPER
	RET

// FOLDWIDE is FOLD over 512 bits.
#define FOLDWIDE(acc, there, tmp) \
	VPCLMULQDQ $0x00, Z0, acc, tmp; \
	VPCLMULQDQ $0x11, Z0, acc, acc; \
	VPTERNLOGQ $0x96, tmp, there, acc

// REDUCEWIDE makes 16 bytes in X4 of 256 in Z1 to Z4.
#define REDUCEWIDE \
	VBROADCASTI32X4 fold512<>(SB), Z0; \
	FOLDWIDE(Z1, Z2, Z5);              \
	FOLDWIDE(Z1, Z3, Z5);              \
	FOLDWIDE(Z1, Z4, Z5);              \
	VMOVDQU64       foldLanes<>(SB), Z0; \
	VPCLMULQDQ      $0x00, Z0, Z1, Z5; \
	VPCLMULQDQ      $0x11, Z0, Z1, Z6; \
	VPXORQ          Z5, Z6, Z5;        \
	VEXTRACTI32X4   $3, Z1, X4;        \
	VEXTRACTI64X4   $1, Z5, Y6;        \
	VPXOR           Y5, Y6, Y5;        \
	VEXTRACTI128    $1, Y5, X6;        \
	VPXOR           X5, X6, X5;        \
	VPXOR           X5, X4, X4

// func crcFoldWide(src *byte, n int, s uint32) (lo, hi uint64)
TEXT ·crcFoldWide(SB), NOSPLIT, $0-40
	MOVQ            src+0(FP), SI
	MOVQ            n+8(FP), CX
	MOVL            s+16(FP), AX
	VMOVD           AX, X0
	VMOVDQU64       (SI), Z1
	VMOVDQU64       64(SI), Z2
	VMOVDQU64       128(SI), Z3
	VMOVDQU64       192(SI), Z4
	VPXORQ          Z0, Z1, Z1
	VBROADCASTI32X4 fold2048<>(SB), Z0
	ADDQ            $256, SI
	SUBQ            $256, CX
	JZ              reduce

	PCALIGN $32
loop:
	VMOVDQU64 (SI), Z9
	VMOVDQU64 64(SI), Z10
	VMOVDQU64 128(SI), Z11
	VMOVDQU64 192(SI), Z12
	FOLDWIDE(Z1, Z9, Z5)
	FOLDWIDE(Z2, Z10, Z6)
	FOLDWIDE(Z3, Z11, Z7)
	FOLDWIDE(Z4, Z12, Z8)
	ADDQ      $256, SI
	SUBQ      $256, CX
	JNZ       loop

reduce:
	REDUCEWIDE
	VMOVQ   X4, lo+24(FP)
	VPEXTRQ $1, X4, hi+32(FP)
	VZEROUPPER
	RET

// func crcFoldCopyWide(dst, src *byte, n int, s uint32) (lo, hi uint64)
TEXT ·crcFoldCopyWide(SB), NOSPLIT, $0-48
	MOVQ            dst+0(FP), DI
	MOVQ            src+8(FP), SI
	MOVQ            n+16(FP), CX
	MOVL            s+24(FP), AX
	VMOVD           AX, X0
	VMOVDQU64       (SI), Z1
	VMOVDQU64       64(SI), Z2
	VMOVDQU64       128(SI), Z3
	VMOVDQU64       192(SI), Z4
	VMOVDQU64       Z1, (DI)
	VMOVDQU64       Z2, 64(DI)
	VMOVDQU64       Z3, 128(DI)
	VMOVDQU64       Z4, 192(DI)
	VPXORQ          Z0, Z1, Z1
	VBROADCASTI32X4 fold2048<>(SB), Z0
	ADDQ            $256, SI
	ADDQ            $256, DI
	SUBQ            $256, CX
	JZ              reduce

	PCALIGN $32
loop:
	VMOVDQU64 (SI), Z9
	VMOVDQU64 64(SI), Z10
	VMOVDQU64 128(SI), Z11
	VMOVDQU64 192(SI), Z12
	VMOVDQU64 Z9, (DI)
	VMOVDQU64 Z10, 64(DI)
	VMOVDQU64 Z11, 128(DI)
	VMOVDQU64 Z12, 192(DI)
	FOLDWIDE(Z1, Z9, Z5)
	FOLDWIDE(Z2, Z10, Z6)
	FOLDWIDE(Z3, Z11, Z7)
	FOLDWIDE(Z4, Z12, Z8)
	ADDQ      $256, SI
	ADDQ      $256, DI
	SUBQ      $256, CX
	JNZ       loop

reduce:
	REDUCEWIDE
	VMOVQ   X4, lo+32(FP)
	VPEXTRQ $1, X4, hi+40(FP)
	VZEROUPPER
	RET

// func cpuid(leaf, subleaf uint32) (ax, bx, cx, dx uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL subleaf+4(FP), CX
	CPUID
	MOVL AX, ax+8(FP)
	MOVL BX, bx+12(FP)
	MOVL CX, cx+16(FP)
	MOVL DX, dx+20(FP)
	RET

// func xgetbv() (ax uint32)
TEXT ·xgetbv(SB), NOSPLIT, $0-4
	MOVL $0, CX
	XGETBV
	MOVL AX, ax+0(FP)
	RET
