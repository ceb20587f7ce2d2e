package p4

import "testing"

// Operators of bit<W> (8.6) and int<W> (8.7): results wrap, or saturate where the operator says so.
func TestRulesOfNumbers(t *testing.T) {
	holdAll(t, []valueRule{
		{"8.6: a sum wraps", "bit<8> x = 200; bit<8> y = 100", "x + y", "bit<8>", "44"},
		{"8.6: a difference wraps", "bit<8> x = 1; bit<8> y = 2", "x - y", "bit<8>", "255"},
		{"8.6: a product has its low bits", "bit<8> x = 20; bit<8> y = 20", "x * y", "bit<8>", "144"},
		{"8.6: negation is modulo 2^W", "bit<8> x = 1", "-x", "bit<8>", "255"},
		{"8.6: negation of 0", "bit<5> x = 0", "-x", "bit<5>", "0"},
		{"8.6: unary plus", "bit<8> x = 7", "+x", "bit<8>", "7"},
		{"8.6: complement", "bit<5> x = 0b10110", "~x", "bit<5>", "0b01001"},
		{"8.6: and, or, xor", "bit<4> x = 0b1100; bit<4> y = 0b1010", "(x & y) ++ (x | y) ++ (x ^ y)", "bit<12>", "0b100011100110"},
		{"8.6: a saturating sum stops at the greatest", "bit<8> x = 200; bit<8> y = 100", "x |+| y", "bit<8>", "255"},
		{"8.6: a saturating sum within the range", "bit<8> x = 100; bit<8> y = 100", "x |+| y", "bit<8>", "200"},
		{"8.6: a saturating difference stops at 0", "bit<8> x = 1; bit<8> y = 2", "x |-| y", "bit<8>", "0"},
		{"8.6: comparison is unsigned", "bit<8> x = 0x80; bit<8> y = 0x7f", "x > y", "bool", "1"},
		{"8.6: less or equal", "bit<8> x = 5; bit<8> y = 5", "x <= y && x >= y && !(x < y) && !(x > y)", "bool", "1"},
		{"8.6: a logical shift right", "bit<8> x = 0x80; bit<8> y = 7", "x >> y", "bit<8>", "1"},
		{"8.6: one bit", "bit<1> x = 1; bit<1> y = 1", "x + y", "bit<1>", "0"},
		{"8.6: one bit saturates", "bit<1> x = 1; bit<1> y = 1", "x |+| y", "bit<1>", "1"},
		{"8.6: a literal takes the other operand's width", "bit<8> x = 255", "x + 1", "bit<8>", "0"},
		{"8.6: a literal that is too large is cut", "bit<8> x = 0", "x | 0xfff", "bit<8>", "255"},
		{"8.6: a word's sum wraps", "bit<64> x = 0xffffffffffffffff; bit<64> y = 2", "x + y", "bit<64>", "1"},
		{"8.6: a word's sum saturates", "bit<64> x = 0xffffffffffffffff; bit<64> y = 2", "x |+| y", "bit<64>", "0xffffffffffffffff"},
		{"8.6: a carry passes words", "bit<65> x = 0xffffffffffffffff; bit<65> y = 1", "x + y", "bit<65>", "0x10000000000000000"},
		{"8.6: a borrow passes words", "bit<128> x = 0x10000000000000000; bit<128> y = 1", "x - y", "bit<128>", "0xffffffffffffffff"},
		{"8.6: a wide sum saturates", "bit<65> x = 0x1ffffffffffffffff; bit<65> y = 1", "x |+| y", "bit<65>", "0x1ffffffffffffffff"},
		{"8.6: a wide difference stops at 0", "bit<100> x = 3; bit<100> y = 4", "x |-| y", "bit<100>", "0"},
		{"8.6: a wide product", "bit<128> x = 0xffffffffffffffff; bit<128> y = 0xffffffffffffffff", "x * y", "bit<128>", "0xfffffffffffffffe0000000000000001"},
		{"8.6: a wide negation", "bit<72> x = 1", "-x", "bit<72>", "0xffffffffffffffffff"},
		{"8.6: a wide complement stays within its width", "bit<70> x = 0", "~x", "bit<70>", "0x3fffffffffffffffff"},
		{"8.6: a wide comparison begins in front", "bit<96> x = 0x100000000000000000000000; bit<96> y = 0x0fffffffffffffffffffffff", "x > y", "bool", "1"},

		{"8.7: a sum wraps to negative", "int<8> x = 127; int<8> y = 1", "x + y", "int<8>", "-128"},
		{"8.7: the negation of the least is the least", "int<8> x = -128", "-x", "int<8>", "-128"},
		{"8.7: a product of negatives", "int<8> x = -7; int<8> y = -9", "x * y", "int<8>", "63"},
		{"8.7: a product wraps", "int<8> x = -128; int<8> y = -1", "x * y", "int<8>", "-128"},
		{"8.7: a saturating sum stops at the greatest", "int<8> x = 127; int<8> y = 127", "x |+| y", "int<8>", "127"},
		{"8.7: a saturating sum stops at the least", "int<8> x = -128; int<8> y = -1", "x |+| y", "int<8>", "-128"},
		{"8.7: a saturating difference of the least", "int<8> x = -128; int<8> y = 1", "x |-| y", "int<8>", "-128"},
		{"8.7: minus the least saturates", "int<8> x = 0; int<8> y = -128", "x |-| y", "int<8>", "127"},
		{"8.7: minus one minus the least does not", "int<8> x = -1; int<8> y = -128", "x |-| y", "int<8>", "127"},
		{"8.7: one bit has -1 and 0", "int<1> x = -1; int<1> y = -1", "x |+| y", "int<1>", "-1"},
		{"8.7: one bit, minus the least", "int<1> x = 0; int<1> y = -1", "x |-| y", "int<1>", "0"},
		{"8.7: a word saturates", "int<64> x = 0x7fffffffffffffff; int<64> y = 1", "x |+| y", "int<64>", "0x7fffffffffffffff"},
		{"8.7: a word saturates below", "int<64> x = -0x8000000000000000; int<64> y = 1", "x |-| y", "int<64>", "-0x8000000000000000"},
		{"8.7: more than a word saturates", "int<65> x = 0xffffffffffffffff; int<65> y = 1", "x |+| y", "int<65>", "0xffffffffffffffff"},
		{"8.7: more than a word saturates below", "int<65> x = -0x10000000000000000; int<65> y = 1", "x |-| y", "int<65>", "-0x10000000000000000"},
		{"8.7: comparison is signed", "int<8> x = -1; int<8> y = 1", "x < y", "bool", "1"},
		{"8.7: comparison with a literal", "int<8> x = -1", "x < 0", "bool", "1"},
		{"8.7: a wide comparison is signed", "int<80> x = -1; int<80> y = 0", "x >= y", "bool", "0"},
		{"8.7: bitwise operators on negatives", "int<8> x = -1; int<8> y = 0x55", "x & y", "int<8>", "0x55"},
		{"8.7: complement", "int<8> x = 0", "~x", "int<8>", "-1"},
	})
}

// Shifts (8.9.2): by any amount, signed ones keep the sign.
func TestRulesOfShifts(t *testing.T) {
	holdAll(t, []valueRule{
		{"8.9.2: left", "bit<8> x = 0x81; bit<8> n = 1", "x << n", "bit<8>", "2"},
		{"8.9.2: left by the width", "bit<8> x = 0xff; bit<8> n = 8", "x << n", "bit<8>", "0"},
		{"8.9.2: left by more than the width", "bit<8> x = 0xff; bit<8> n = 200", "x << n", "bit<8>", "0"},
		{"8.9.2: left by a constant of more than the width", "bit<16> y = 0xffff", "y << 1024", "bit<16>", "0"},
		{"8.9.2: right by a constant of more than the width", "bit<16> y = 0xffff", "y >> 1024", "bit<16>", "0"},
		{"8.9.2: right by the width of a word", "bit<64> x = 0xffffffffffffffff; bit<8> n = 64", "x >> n", "bit<64>", "0"},
		{"8.9.2: left by the width of a word", "bit<64> x = 0xffffffffffffffff; bit<8> n = 64", "x << n", "bit<64>", "0"},
		{"8.9.2: by 63", "bit<64> x = 3; bit<8> n = 63", "x << n", "bit<64>", "0x8000000000000000"},
		{"8.9.2: right of a negative", "int<8> x = -128; bit<8> n = 3", "x >> n", "int<8>", "-16"},
		{"8.9.2: right of a negative by more than the width", "int<8> x = -128; bit<8> n = 100", "x >> n", "int<8>", "-1"},
		{"8.9.2: right of a positive by more than the width", "int<8> x = 127; bit<8> n = 100", "x >> n", "int<8>", "0"},
		{"8.9.2: left of a negative", "int<8> x = -1; bit<8> n = 7", "x << n", "int<8>", "-128"},
		{"8.9.2: left of a negative by more than the width", "int<8> x = -1; bit<8> n = 8", "x << n", "int<8>", "0"},
		{"8.9.2: the amount's width is its own", "bit<8> x = 1; bit<16> n = 256", "x << n", "bit<8>", "0"},
		{"8.9.2: a wide amount", "bit<8> x = 0xff; bit<72> n = 0x10000000000000001", "x >> n", "bit<8>", "0"},
		{"8.9.2: a wide value across words", "bit<128> x = 1; bit<8> n = 100", "x << n", "bit<128>", "0x10000000000000000000000000"},
		{"8.9.2: a wide value right across words", "bit<128> x = 0x80000000000000000000000000000000; bit<8> n = 127", "x >> n", "bit<128>", "1"},
		{"8.9.2: a wide negative", "int<100> x = -256; bit<8> n = 4", "x >> n", "int<100>", "-16"},
		{"8.9.2: a wide negative by more than the width", "int<100> x = -2; bit<8> n = 255", "x >> n", "int<100>", "-1"},
		{"8.9.2: a wide value by more than the width", "bit<100> x = 1; bit<8> n = 100", "x << n", "bit<100>", "0"},
		{"8.9.2: a constant positive int<S> is an amount", "bit<8> x = 1", "x << 3s3", "bit<8>", "8"},
		{"8.9.2: shifts are of the left's type", "bit<8> x = 1; bit<16> n = 2", "(x << n) ++ 8w0", "bit<16>", "0x400"},
	})
}

// Concatenation (8.9.1) and slices (8.6, 8.7): the left operand gives the sign; a slice is unsigned.
func TestRulesOfConcatenation(t *testing.T) {
	holdAll(t, []valueRule{
		{"8.9.1: the left is in front", "bit<4> x = 0xa; bit<12> y = 0x5bc", "x ++ y", "bit<16>", "0xa5bc"},
		{"8.9.1: signed and unsigned", "int<4> x = -1; bit<4> y = 0", "x ++ y", "int<8>", "-16"},
		{"8.9.1: unsigned and signed", "bit<4> x = 0; int<4> y = -1", "x ++ y", "bit<8>", "15"},
		{"8.9.1: three", "bit<1> x = 1; bit<2> y = 2; bit<5> z = 3", "x ++ y ++ z", "bit<8>", "0b11000011"},
		{"8.9.1: to more than a word", "bit<64> x = 1; bit<64> y = 2", "x ++ y", "bit<128>", "0x10000000000000002"},
		{"8.9.1: at no word's edge", "bit<65> x = 0x1ffffffffffffffff; bit<3> y = 0", "x ++ y", "bit<68>", "0xffffffffffffffff8"},
		{"8.9.1: binds as + does", "bit<8> x = 1; bit<8> y = 2", "x ++ y + 16w1", "bit<16>", "0x103"},
		{"8.6: a slice", "bit<16> x = 0x1234", "x[11:4]", "bit<8>", "0x23"},
		{"8.6: a slice of one bit", "bit<16> x = 0x8000", "x[15:15]", "bit<1>", "1"},
		{"8.6: a slice of the whole", "bit<16> x = 0x1234", "x[15:0]", "bit<16>", "0x1234"},
		{"8.6: a slice of a slice", "bit<16> x = 0x1234", "x[11:4][7:4]", "bit<4>", "2"},
		{"8.6: a slice of a sum", "bit<8> x = 0xf0; bit<8> y = 0x21", "(x + y)[7:4]", "bit<4>", "1"},
		{"8.6: a slice across words", "bit<100> x = 0x123456789abcdef0123456789", "x[71:56]", "bit<16>", "0x89ab"},
		{"8.6: a wide slice", "bit<140> x = 0x123456789abcdef0123456789abcdef0123", "x[135:4]", "bit<132>", "0x23456789abcdef0123456789abcdef012"},
		{"8.6: a wide slice as the right operand", "bit<70> x = 1; bit<200> y = 0x123456789abcdef0123456789abcdef0123456789abcdef01", "x + y[110:41]", "bit<70>", "0x33c4d5e6f78091a2b4"},
		{"8.6: a wide slice as the left operand", "bit<70> x = 1; bit<200> y = 0x123456789abcdef0123456789abcdef0123456789abcdef01", "y[110:41] - x", "bit<70>", "0x33c4d5e6f78091a2b2"},
		{"8.6: two wide slices of one value", "bit<200> y = 0x123456789abcdef0123456789abcdef0123456789abcdef01", "y[110:41] ^ y[111:42]", "bit<70>", "0x2a26bf158c40d973ea"},
		{"8.6: wide slices that are compared", "bit<70> x = 0x33c4d5e6f78091a2b3; bit<200> y = 0x123456789abcdef0123456789abcdef0123456789abcdef01", "x == y[110:41] && y[110:41] == x && x <= y[110:41] && !(y[110:41] < x) && x != y[111:42]", "bool", "1"},
		{"8.9.1: wide slices that are joined", "bit<200> y = 0x123456789abcdef0123456789abcdef0123456789abcdef01", "y[199:130] ++ y[69:0]", "bit<140>", "0x123456789abcdef00123456789abcdef01"},
		{"8.9.2: a wide slice that is shifted", "bit<200> y = 0x123456789abcdef0123456789abcdef0123456789abcdef01; bit<8> n = 4", "y[110:41] << n", "bit<70>", "0x3c4d5e6f78091a2b30"},
		{"8.9.2: a wide slice as amount", "bit<200> y = 2; bit<8> n = 4", "n << y[80:0]", "bit<8>", "16"},
		{"8.6: the complement and negation of a wide slice", "bit<200> y = 0x123456789abcdef0123456789abcdef0123456789abcdef01", "~y[110:41] + 1 ^ -y[110:41]", "bit<70>", "0"},
		{"8.11.1: a cast of a wide slice", "bit<200> y = 0x123456789abcdef0123456789abcdef0123456789abcdef01", "(bit<80>)y[110:41]", "bit<80>", "0x33c4d5e6f78091a2b3"},
		{"8.6: by [+:]", "bit<16> x = 0x1234", "x[4+:8]", "bit<8>", "0x23"},
		{"8.7: a slice of a negative is unsigned", "int<8> x = -1", "x[7:4]", "bit<4>", "15"},
		{"8.8: a slice of an int", "bit<8> x = 0", "x + (-1)[7:0]", "bit<8>", "255"},
		{"8.8: a slice of an int beyond its digits", "bit<8> x = 0", "x + 5[15:8]", "bit<8>", "0"},
		{"8.3: a slice of a serialisable enum", "bit<9> x = 0", "x + 0b101[8:0]", "bit<9>", "5"},
	})
}

// Casts (8.11): as the table of explicit casts has them.
func TestRulesOfCasts(t *testing.T) {
	holdAll(t, []valueRule{
		{"8.11.1: bit to a narrower bit", "bit<16> x = 0x1234", "(bit<8>)x", "bit<8>", "0x34"},
		{"8.11.1: bit to a wider bit", "bit<8> x = 0x80", "(bit<16>)x", "bit<16>", "0x80"},
		{"8.11.1: int to a wider int", "int<8> x = -2", "(int<16>)x", "int<16>", "-2"},
		{"8.11.1: int to a narrower int", "int<16> x = 0x1ff", "(int<8>)x", "int<8>", "-1"},
		{"8.11.1: int to bit of its width", "int<8> x = -1", "(bit<8>)x", "bit<8>", "255"},
		{"8.11.1: bit to int of its width", "bit<8> x = 255", "(int<8>)x", "int<8>", "-1"},
		{"8.11.1: width and sign in two casts", "int<8> x = -1", "(bit<16>)(int<16>)x", "bit<16>", "0xffff"},
		{"8.11.1: sign and width in two casts", "int<8> x = -1", "(bit<16>)(bit<8>)x", "bit<16>", "0xff"},
		{"8.11.1: bool to bit", "bool x = true", "(bit<1>)x", "bit<1>", "1"},
		{"8.11.1: bit to bool", "bit<1> x = 1", "(bool)x", "bool", "1"},
		{"8.11.1: bit to int without a width and back", "bit<8> x = 255", "(bit<16>)((int)x + 1)", "bit<16>", "256"},
		{"8.11.1: int<W> to int keeps the sign", "int<8> x = -1", "(int<16>)((int)x - 1)", "int<16>", "-2"},
		{"8.11.1: a negative int to bit", "bit<8> x = 1", "x + (bit<8>)(-3)", "bit<8>", "254"},
		{"8.11.1: a type to itself", "bit<8> x = 9", "(bit<8>)x", "bit<8>", "9"},
		{"8.11.1: wide to a word", "bit<100> x = 0xfedcba98765432100f", "(bit<64>)x", "bit<64>", "0xdcba98765432100f"},
		{"8.11.1: a word to wide", "bit<64> x = 0xffffffffffffffff", "(bit<128>)x", "bit<128>", "0xffffffffffffffff"},
		{"8.11.1: a negative word to wide", "int<64> x = -1", "(int<128>)x", "int<128>", "-1"},
		{"8.11.1: a negative byte to wide", "int<8> x = -128", "(int<128>)x", "int<128>", "-128"},
		{"8.11.1: wide to wider keeps the sign", "int<65> x = -1", "(int<200>)x", "int<200>", "-1"},
		{"8.11.1: wide to narrower", "int<200> x = -1", "(int<65>)x", "int<65>", "-1"},
		{"8.11.2: the literal is cast, not the field", "bit<8> x = 255; int<8> y = -1", "(bit<1>)(bool)(bit<1>)(x == 255 && y == -1)", "bit<1>", "1"},
	})
}

// Precedence (8): C's, but &, ^ and | bind tighter than comparisons, and ++ as + does.
func TestRulesOfPrecedence(t *testing.T) {
	const abc = "bit<8> a = 7; bit<8> b = 2; bit<8> c = 3"
	holdAll(t, []valueRule{
		{"8: * before +", abc, "a + b * c", "bit<8>", "13"},
		{"8: * before -", abc, "a - b * c", "bit<8>", "1"},
		{"8: - is from the left", abc, "a - b - c", "bit<8>", "2"},
		{"8: + before <<", abc, "a << b + 1", "bit<8>", "56"},
		{"8: << is from the left", abc, "a << b << c", "bit<8>", "224"},
		{"8: >> before &", abc, "a & a >> 1", "bit<8>", "3"},
		{"8: & before ^", abc, "a ^ b & c", "bit<8>", "5"},
		{"8: ^ before |", abc, "8 | a ^ c", "bit<8>", "12"},
		{"8: & before ==", abc, "a & b == 2", "bool", "1"},
		{"8: | before <", abc, "a | b < 8", "bool", "1"},
		{"8: ^ before !=", abc, "a ^ b != 5", "bool", "0"},
		{"8: < before ==", "bool x = true; bit<8> a = 1; bit<8> b = 2", "x == a < b", "bool", "1"},
		{"8: == before &&", abc, "a == 7 && b == 2", "bool", "1"},
		{"8: && before ||", "bool x = true; bool y = false; bool z = false", "x || y && z", "bool", "1"},
		{"8: || before ?", "bool x = false; bool y = true; bit<8> a = 5", "x || y ? a : 0", "bit<8>", "5"},
		{"8: ? is from the right", "bool x = false; bool y = false; bit<8> a = 5", "x ? 8w1 : y ? 8w2 : a", "bit<8>", "5"},
		{"8: unary before *", abc, "-a * b", "bit<8>", "242"},
		{"8: ~ before +", abc, "~a + b", "bit<8>", "250"},
		{"8: ! before &&", "bool x = false; bool y = true", "!x && y", "bool", "1"},
		{"8: a cast before *", "bit<4> x = 15; bit<8> y = 2", "(bit<8>)x * y", "bit<8>", "30"},
		{"8: a slice before a cast", "bit<16> x = 0x1234", "(bit<16>)x[15:8]", "bit<16>", "0x12"},
		{"8: a slice before -", "bit<8> x = 0x10", "-x[7:4]", "bit<4>", "15"},
		{"8: |+| as +", abc, "a |-| b * c |+| 1", "bit<8>", "2"},
		{"8: parentheses", abc, "(a + b) * c", "bit<8>", "27"},
		{"8: >> and > are told apart", abc, "a >> 1 > b", "bool", "1"},
		{"8: a comparison that is no type argument", abc, "a < b || a > (c)", "bool", "1"},
	})
}

// Booleans (8.5) and the conditional operator (8.5.1).
func TestRulesOfBooleans(t *testing.T) {
	holdAll(t, []valueRule{
		{"8.5: and", "bool x = true; bool y = false", "x && y", "bool", "0"},
		{"8.5: or", "bool x = true; bool y = false", "x || y", "bool", "1"},
		{"8.5: not", "bool x = true", "!x", "bool", "0"},
		{"8.5: equal", "bool x = true; bool y = true", "x == y", "bool", "1"},
		{"8.5: not equal", "bool x = true; bool y = false", "x != y", "bool", "1"},
		{"8.5.1: a literal takes the other branch's width", "bool x = true; bit<8> y = 3", "x ? 1 : y", "bit<8>", "1"},
		{"8.5.1: two literals where the condition is known", "bit<8> y = 3", "y + (3 > 2 ? 1 : 2)", "bit<8>", "4"},
		{"8.5.1: wide branches", "bool x = false; bit<80> y = 3; bit<80> z = 0xffffffffffffffffffff", "(x ? y : z + 1)", "bit<80>", "0"},
		{"8.5.1: in an operand", "bool x = true; bit<8> y = 3", "(x ? y : 0) + (x ? 0 : y)", "bit<8>", "3"},
	})
}

// Arbitrary integers (8.8) and division: without loss, towards 0, of positive values.
func TestRulesOfIntegers(t *testing.T) {
	holdAll(t, []valueRule{
		{"8.8: no loss in between", "bit<8> x = 1", "x + (1 << 200 >> 200)", "bit<8>", "2"},
		{"8.8: a product of 1024 bits", "bit<8> x = 1", "x + ((1 << 1023) * (1 << 1023) >> 2046)", "bit<8>", "2"},
		{"8.8: division truncates", "bit<8> x = 1", "x + 7 / 2", "bit<8>", "4"},
		{"8.8: modulo", "bit<8> x = 1", "x + 7 % 4", "bit<8>", "4"},
		{"8.8: >> is the floor", "int<8> x = 0", "x + (-5 >> 1)", "int<8>", "-3"},
		{"8.8: << of a negative", "int<8> x = 0", "x + (-5 << 2)", "int<8>", "-20"},
		{"8.8: comparison of negatives", "bool x = true", "x == -5 < -4", "bool", "1"},
		{"8.8: - of -", "bit<8> x = 0", "x + - - 5", "bit<8>", "5"},
		{"8.6: division by a power of two", "bit<8> x = 255", "x / 16", "bit<8>", "15"},
		{"8.6: modulo by a power of two", "bit<8> x = 255", "x % 16", "bit<8>", "15"},
		{"8.6: division by 1", "bit<8> x = 255", "x / 1", "bit<8>", "255"},
		{"8.6: modulo by 1", "bit<8> x = 255", "x % 1", "bit<8>", "0"},
		{"8.6: division of a word by its greatest power", "bit<64> x = 0xffffffffffffffff", "x / 0x8000000000000000", "bit<64>", "1"},
		{"8.6: a wide division", "bit<100> x = 0x8000000000000000000000000", "x / 0x4000000000000000000000000", "bit<100>", "2"},
		{"8.6: a wide modulo", "bit<100> x = 0x8000000000000000000000007", "x % 0x10", "bit<100>", "7"},
		{"9.1: sizes are of type int", "bit<8> x = 1", "x + (bit<8>)x.minSizeInBits()", "bit<8>", "9"},
	})
}
