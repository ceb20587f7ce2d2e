/*
 * What Go says of numbers and memory, where C says something else or nothing.
 *
 * Compile with -fwrapv (signed integers wrap) and -ffp-contract=off (no product is
 * fused with a sum), and with -fno-math-errno, or link with -lm. What panics in Go
 * traps here: a division by zero, an index out of range.
 */
#ifndef SLUICE_GO_H
#define SLUICE_GO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__GNUC__)
#error "expected gcc or clang: the semantics rest on their options and builtins"
#endif
#if defined(__FAST_MATH__)
#error "-ffast-math changes results: NaN, infinities and rounding have to be IEEE's"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "double has to be computed as such, not in more digits (-mfpmath=sse)"
#endif

/* What functions return that Go has an error for. Its words are Go's alone. */
#define SLUICE_INVALID 22

void *memcpy(void *, const void *, size_t);
void *memmove(void *, const void *, size_t);
void *memset(void *, int, size_t);

/* An index, if it is in range. */
static inline uint64_t sluice_at(uint64_t i, uint64_t n)
{
	if (i >= n)
		__builtin_trap();
	return i;
}

/* The length of a slice from lo to hi of what has room for cap. */
static inline int64_t sluice_span(int64_t lo, int64_t hi, int64_t cap)
{
	if (lo < 0 || hi < lo || cap < hi)
		__builtin_trap();
	return hi - lo;
}

/* Division and remainder: the least integer over -1 wraps. */
static inline int64_t sluice_div(int64_t a, int64_t b)
{
	if (b == 0)
		__builtin_trap();
	return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static inline int64_t sluice_rem(int64_t a, int64_t b)
{
	if (b == 0)
		__builtin_trap();
	return b == -1 ? 0 : a % b;
}

static inline uint64_t sluice_divu(uint64_t a, uint64_t b)
{
	if (b == 0)
		__builtin_trap();
	return a / b;
}

static inline uint64_t sluice_remu(uint64_t a, uint64_t b)
{
	if (b == 0)
		__builtin_trap();
	return a % b;
}

/* Shifts by any count: by the width and more nothing is left but the sign. */
static inline uint64_t sluice_shl(uint64_t x, uint64_t n)
{
	return n < 64 ? x << n : 0;
}

static inline uint64_t sluice_shr(uint64_t x, uint64_t n)
{
	return n < 64 ? x >> n : 0;
}

static inline int64_t sluice_sar(int64_t x, uint64_t n)
{
	return x >> (n < 64 ? n : 63);
}

static inline int64_t sluice_min(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline int64_t sluice_max(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static inline uint64_t sluice_minu(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t sluice_maxu(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Of numbers one of which is NaN, NaN; and -0 is below 0. */
static inline double sluice_fmin(double a, double b)
{
	if (a < b)
		return a;
	if (b < a)
		return b;
	if (a != b)
		return a + b;
	return __builtin_signbit(a) ? a : b;
}

static inline double sluice_fmax(double a, double b)
{
	if (a > b)
		return a;
	if (b > a)
		return b;
	if (a != b)
		return a + b;
	return __builtin_signbit(a) ? b : a;
}

/* Whether two texts are the same; NULL is the empty one. */
static inline bool sluice_same(const char *a, const char *b)
{
	if (!a)
		a = "";
	if (!b)
		b = "";
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

static inline double sluice_abs(double x)
{
	return __builtin_fabs(x);
}

static inline double sluice_sqrt(double x)
{
	return __builtin_sqrt(x);
}

static inline double sluice_nan(void)
{
	return __builtin_nan("");
}

static inline double sluice_inf(int64_t sign)
{
	return sign >= 0 ? __builtin_inf() : -__builtin_inf();
}

/* Whether x is infinite, of that sign, or of any if it is 0. */
static inline bool sluice_isinf(double x, int64_t sign)
{
	return (sign >= 0 && x == __builtin_inf()) || (sign <= 0 && x == -__builtin_inf());
}

static inline uint64_t sluice_float64bits(double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

static inline double sluice_float64frombits(uint64_t bits)
{
	double x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

/* The integer part as an integer, the nearest for what is out of range, 0 for NaN. */
static inline int64_t sluice_int64(double x)
{
	if (x >= 9223372036854775808.0)
		return INT64_MAX;
	if (x >= -9223372036854775808.0)
		return (int64_t)x;
	return x != x ? 0 : INT64_MIN;
}

/* From here on every double is an integer. */
#define SLUICE_INTEGERS 4503599627370496.0

static inline double sluice_trunc(double x)
{
	if (!(sluice_abs(x) < SLUICE_INTEGERS))
		return x;
	return __builtin_copysign((double)(int64_t)x, x);
}

static inline double sluice_floor(double x)
{
	double t = sluice_trunc(x);
	return t > x ? t - 1 : t;
}

static inline double sluice_ceil(double x)
{
	double t = sluice_trunc(x);
	return t < x ? __builtin_copysign(t + 1, x) : t;
}

/* Halves go away from zero. */
static inline double sluice_round(double x)
{
	double t = sluice_trunc(x);
	return sluice_abs(x - t) >= 0.5 ? t + __builtin_copysign(1, x) : t;
}

/* 2 to the n, from -1022 to 1023. */
static inline double sluice_exp2(int64_t n)
{
	return sluice_float64frombits((uint64_t)(n + 1023) << 52);
}

/* x times 2 to the n, rounded once. */
static inline double sluice_ldexp(double x, int64_t n)
{
	if (n > 1023) {
		x *= sluice_exp2(1023);
		n = sluice_min(n - 1023, 2046);
		if (n > 1023) {
			x *= sluice_exp2(1023);
			n -= 1023;
		}
	} else if (n < -1022) {
		/* What is lost of the last bits is lost in the last product. */
		x *= sluice_exp2(-969);
		n = sluice_max(n + 969, -1991);
		if (n < -1022) {
			x *= sluice_exp2(-969);
			n += 969;
		}
	}
	return x * sluice_exp2(n);
}

/* x = frac times 2 to the exp, frac from 1/2 to below 1. */
struct sluice_fraction {
	double frac;
	int64_t exp;
};

static inline struct sluice_fraction sluice_frexp(double x)
{
	uint64_t bits = sluice_float64bits(x);
	int64_t more = 0;
	if (x == 0 || x - x != 0)
		return (struct sluice_fraction){x, 0};
	if ((bits >> 52 & 0x7ff) == 0) {
		x *= SLUICE_INTEGERS;
		bits = sluice_float64bits(x);
		more = -52;
	}
	int64_t exp = (int64_t)(bits >> 52 & 0x7ff) - 1022;
	bits = (bits & ~((uint64_t)0x7ff << 52)) | (uint64_t)1022 << 52;
	return (struct sluice_fraction){sluice_float64frombits(bits), exp + more};
}

/* How many bits it takes to write x. */
static inline int64_t sluice_len64(uint64_t x)
{
	return x == 0 ? 0 : 64 - __builtin_clzll(x);
}

static inline int64_t sluice_trailing_zeros64(uint64_t x)
{
	return x == 0 ? 64 : __builtin_ctzll(x);
}

static inline int64_t sluice_trailing_zeros16(uint16_t x)
{
	return x == 0 ? 16 : __builtin_ctz(x);
}

struct sluice_u128 {
	uint64_t hi, lo;
};

static inline struct sluice_u128 sluice_mul64(uint64_t a, uint64_t b)
{
	uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
	uint64_t mid = a1 * b0 + (a0 * b0 >> 32);
	uint64_t low = (uint32_t)mid + a0 * b1;
	return (struct sluice_u128){a1 * b1 + (mid >> 32) + (low >> 32), a * b};
}

struct sluice_sum {
	uint64_t sum, carry;
};

static inline struct sluice_sum sluice_add64(uint64_t a, uint64_t b, uint64_t carry)
{
	uint64_t sum = a + b + carry;
	return (struct sluice_sum){sum, ((a & b) | ((a | b) & ~sum)) >> 63};
}

struct sluice_difference {
	uint64_t diff, borrow;
};

static inline struct sluice_difference sluice_sub64(uint64_t a, uint64_t b, uint64_t borrow)
{
	uint64_t diff = a - b - borrow;
	return (struct sluice_difference){diff, ((~a & b) | (~(a ^ b) & diff)) >> 63};
}

struct sluice_quotient {
	uint64_t quo, rem;
};

/* (hi, lo) over y, which is more than hi. */
static inline struct sluice_quotient sluice_div64(uint64_t hi, uint64_t lo, uint64_t y)
{
	if (y <= hi)
		__builtin_trap();
#if defined(__x86_64__) && !defined(SLUICE_PORTABLE)
	uint64_t quo, rem;
	__asm__("divq %4" : "=a"(quo), "=d"(rem) : "0"(lo), "1"(hi), "r"(y) : "cc");
	return (struct sluice_quotient){quo, rem};
#else
	/* Bit by bit: no word of twice the size, and so no call of the compiler's library. */
	for (int i = 0; i < 64; i++) {
		uint64_t out = hi >> 63;
		hi = hi << 1 | lo >> 63;
		lo <<= 1;
		if (out || hi >= y) {
			hi -= y;
			lo |= 1;
		}
	}
	return (struct sluice_quotient){lo, hi};
#endif
}

#endif
