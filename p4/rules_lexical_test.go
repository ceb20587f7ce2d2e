package p4

import (
	"io/fs"
	"strings"
	"testing"
)

// Literals (6.4.3): bases, widths, underscores.
func TestRulesOfLiterals(t *testing.T) {
	const zero = "bit<32> x = 0"
	holdAll(t, []valueRule{
		{"6.4.3.2: decimal", zero, "x + 255", "bit<32>", "255"},
		{"6.4.3.2: with a width", zero, "x + 32w255", "bit<32>", "255"},
		{"6.4.3.2: 0d", zero, "x + 32w0d255", "bit<32>", "255"},
		{"6.4.3.2: 0D", zero, "x + 0D19", "bit<32>", "19"},
		{"6.4.3.2: 0x", zero, "x + 32w0xFf", "bit<32>", "255"},
		{"6.4.3.2: 0X", zero, "x + 0Xa0", "bit<32>", "160"},
		{"6.4.3.2: 0b", zero, "x + 0b101", "bit<32>", "5"},
		{"6.4.3.2: 0B", zero, "x + 32w0B11", "bit<32>", "3"},
		{"6.4.3.2: 0o", zero, "x + 0o377", "bit<32>", "255"},
		{"6.4.3.2: 0O", zero, "x + 32w0O17", "bit<32>", "15"},
		{"6.4.3.2: a leading zero is no octal", "bit<16> x = 0", "x + 16w0377", "bit<16>", "377"},
		{"6.4.3.2: underscores", zero, "x + 1_000_000", "bit<32>", "1000000"},
		{"6.4.3.2: underscores behind a base", zero, "x + 32w0b_1010_1010", "bit<32>", "170"},
		{"6.4.3.2: underscores at the end", zero, "x + 0xff_", "bit<32>", "255"},
		{"6.4.3.2: signed", "int<32> x = 0", "x + 32s0xFF", "int<32>", "255"},
		{"6.4.3.2: signed and negative", "int<8> x = 0", "x + 8s0b1010_1010", "int<8>", "-86"},
		{"6.4.3.2: too large for its width", "bit<8> x = 0", "x + 8w257", "bit<8>", "1"},
		{"6.4.3.2: of many bits", "bit<200> x = 0", "x + 0xffffffffffffffffffffffffffffffffffffffffffffffffff", "bit<200>", "0xffffffffffffffffffffffffffffffffffffffffffffffffff"},
		{"6.4.3.2: - is an operator", "int<8> x = 0", "x + -8s5", "int<8>", "-5"},
		{"6.4.3.1: booleans", "bool x = true", "x == true && true != false", "bool", "1"},
		{"6.4.3.3: strings are equal", "bool x = true", "x && (\"a\" ++ \"b\" == \"ab\")", "bool", "1"},
		{"6.4.2: a comment in an expression", "bit<8> x = 1", "x /* plus */ + // a line\n 2", "bit<8>", "3"},
		{"6.4.2: no comment within a comment", "bit<8> x = 1", "x /* a /* b */ + 2", "bit<8>", "3"},
		{"6.4.2: // within /* */", "bit<8> x = 1", "x /* // */ + 2", "bit<8>", "3"},
		{"6.4.2: /* behind //", "bit<8> x = 1", "x // /*\n + 2", "bit<8>", "3"},
		{"6.4.2: a string holds no comment", "bool x = true", "x && \"/*\" == \"/*\"", "bool", "1"},
	})
}

// What stands where (6.4.1, 6.4.4) and what the preprocessor makes of it (6.2).
func TestRulesOfTokens(t *testing.T) {
	for _, c := range []struct{ rule, src, want string }{
		{"6.4.1: letters, digits and _", "const bit<8> _a1_B = 1; const bit<8> b = _a1_B;", ""},
		{"6.4.1: no other letter", "const bit<8> ä = 1;", "expected the name of the constant"},
		{"6.4.1: no digit first", "const bit<8> 1a = 1;", "expected the name of the constant before '1a'"},
		{"6.4.1: _ is no name", "const bit<8> _ = 1;", "'_' is a keyword: give the constant another name"},
		{"6.4.1: case counts", "const bit<8> a = 1; const bit<8> A = a + 1; const bit<8> b = A;", ""},
		{"6.4.1: a keyword is no name", "const bit<8> state = 1; const bit<8> control = 1;", "'control' is a keyword: give the constant another name"},
		{"6.4.1: names that are keywords elsewhere", "struct s_t { bit<8> apply; bit<8> key; bit<8> actions; bit<8> state; bit<8> entries; bit<8> type; bit<8> priority; }", ""},
		{"6.4.2: a comment parts tokens", "const bi/**/t<8> a = 1;", "expected"},
		{"6.4.2: a comment without an end", "const bit<8> a = 1; /* ", "this comment has no end: close it with */"},
		{"6.4.3.2: a digit beyond the base", "const int a = 0b12;", "'0b12' is no integer of base 2"},
		{"6.4.3.2: octal", "const int a = 0o8;", "'0o8' is no integer of base 8"},
		{"6.4.3.2: no digits", "const int a = 0x;", "is no integer of base 16"},
		{"6.4.3.2: no digits behind the width", "const int a = 8w;", "'8w' is no integer of base 10"},
		{"6.4.3.2: only underscores", "const int a = 0x_;", "is no integer of base 16"},
		{"6.4.3.2: an underscore within the width", "const bit<16> a = 1_6w5;", "'1_6w5' is no integer of base 10"},
		{"6.4.3.2: a space within", "const bit<16> a = 16w 5;", "is no integer"},
		{"6.4.3.2: a fraction", "const int a = 1.5;", "expected a member's name behind the dot"},
		{"6.4.3.2: a signed literal of no bits", "const int a = 0s1;", "0s1 has no bits: a width is 1 or more"},
		{"6.4.3.3: a string without an end", "const string a = \"x", "this string has no end: close it with a quote"},
		{"6.4.3.3: a quote within", `const bool a = static_assert("a\"b" == "a\"b", "no");`, ""},
		{"6.4.3.3: bytes beyond ASCII", "const bool a = static_assert(\"é\" ++ \"ß\" == \"éß\", \"no\");", ""},
		{"6.4.3.3: over two lines", "const bool a = static_assert(\"a\nb\" != \"ab\", \"no\");", ""},
		{"6.4.4: a comma at the end of an enum", "enum e_t { A, B, } enum bit<8> f_t { A = 1, }", ""},
		{"6.4.4: of errors and match kinds", "error { A, B, } match_kind { k, }", ""},
		{"6.4.4: of parameters and arguments", "bit<8> f(in bit<8> a, in bit<8> b,) { return a + b; } bit<8> g() { return f(1, 2,); }", ""},
		{"6.4.4: of lists", "const tuple<bit<8>, bit<8>> a = { 1, 2, }; struct s_t { bit<8> x; } const s_t b = { x = 1, };", ""},
		{"6.4.4: a comma alone", "enum e_t { , }", "expected the name of the member before ','"},
		{"6.4.4: two commas", "enum e_t { A,, B }", "expected the name of the member before ','"},

		{"6.2: a macro", "#define W 8\nconst bit<W> a = W;", ""},
		{"6.2: a macro with parameters", "#define ADD(a, b) ((a) + (b))\nconst bool a = static_assert(ADD(1, 2) * 2 == 6, \"no\");", ""},
		{"6.2: an argument with commas in parentheses", "#define FIRST(a, b) a\nbit<8> f(in bit<8> x, in bit<8> y) { return x; }\nbit<8> g() { return FIRST(f(1, 2), 3); }", ""},
		{"6.2: a macro within a macro", "#define A B\n#define B 5\nconst bool a = static_assert(A == 5, \"no\");", ""},
		{"6.2: a macro that names itself", "#define a a\nconst bit<8> a = 1;", ""},
		{"6.2: # makes a string", "#define S(x) #x\nconst bool a = static_assert(S(a b) == \"a b\", \"no\");", ""},
		{"6.2: ## joins tokens", "#define J(x, y) x##y\nconst bit<8> J(a, 1) = 1; const bit<8> b = a1;", ""},
		{"6.2: a name in a string is no macro", "#define A 5\nconst bool a = static_assert(\"A\" != \"5\", \"no\");", ""},
		{"6.2: a string in a macro holds no comment", "#define S \"a//b\" // c\nconst bool a = static_assert(S == \"a//b\", \"no\");", ""},
		{"6.2: a string in a macro that has no end", "#define S \"ab\nconst string a = S;", "this string has no end: close it with a quote"},
		{"6.2: a macro that grows without bound", "#define A(x) x x x x x x x x x x x x x x x x\n#define B(x) A(A(A(x)))\nconst bit<8> a = B(B(1));", "more than 262144 tokens"},
		{"6.4.2: // goes on behind a backslash", "// a \\\n ] is no token here\nconst bit<8> a = 1; const bit<8> b = a;", ""},
		{"20: @pragma goes to the end of its line", "@pragma stage 3 ] {\nconst bit<8> a = 1; const bit<8> b = a;", ""},
		{"20: @pragma of nothing", "@pragma\nconst bit<8> a = 1; const bit<8> b = a;", ""},
		{"20: an annotation with a body of any tokens", "@x(] ; 5) @y[1, \"a\"] @z[k=1] const bit<8> a = 1; const bit<8> b = a;", ""},
		{"20: an annotation without a name", "@(1) const bit<8> a = 1;", "an annotation is @name"},
		{"6.2: undef", "#define A 5\n#undef A\nconst bit<8> A = 1;", ""},
		{"6.2: if of a comparison", "#define V 3\n#if V > 2 && defined(V) && !defined(X)\nconst bit<8> a = 1;\n#endif\nconst bit<8> b = a;", ""},
		{"6.2: if by C's precedence", "#if 1 + 2 * 3 == 7 && (1 | 2) == 3 && 1 << 2 == 4 && -1 < 0 && ~0 == -1 && 7 % 4 == 3 && 7 / 2 == 3 && (5 ^ 1) == 4 && (6 & 3) == 2\n#else\n#error wrong\n#endif", ""},
		{"6.2: if by C's comparisons", "#if 1 <= 1 && 2 >= 2 && !(1 != 1) && 16 >> 2 == 4 && (0 || 1) && (0 ? 0 : 1) && 3 - 2 == 1 && +1 == 1 && NONE == 0\n#else\n#error wrong\n#endif", ""},
		{"6.2: a quotient of negatives", "#if -7 / 2 == -3 && -7 % 2 == -1 && 7 / -1 == -7 && 7 % -1 == 0\n#else\n#error wrong\n#endif", ""},
		{"6.2: division by zero", "#if 1 / 0\n#endif", "division by zero in the condition"},
		{"6.2: division by zero that does not count", "#if 0 && 1 / 0 || 1 || 1 % 0\n#else\n#error wrong\n#endif", ""},
		{"6.2: elif and else", "#if 0\n#error a\n#elif 1\nconst bit<8> a = 1;\n#elif 1\n#error b\n#else\n#error c\n#endif\nconst bit<8> b = a;", ""},
		{"6.2: nested conditions that are not taken", "#if 0\n#if 1\n#error a\n#else\n#error b\n#endif\n#endif", ""},
		{"6.2: an error", "#error what is wrong", "#error what is wrong"},
		{"6.2: an include that is not there", "#include \"none.p4\"", "cannot find none.p4"},
		{"6.2: a continued line", "#define A 1 + \\\n 2\nconst bool a = static_assert(A == 3, \"no\");", ""},
		{"6.2: __LINE__", "const bool a = static_assert(__LINE__ == 2, \"no\");", ""},
	} {
		_, err := parsed("p.p4", []byte("#include <core.p4>\n"+c.src+"\ncontrol c(); package pk(c x); control i() { apply { } } pk(i()) main;\n"), Options{}, func(string) ([]byte, error) { return nil, fs.ErrNotExist })
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %s\n is refused: %v", c.rule, c.src, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !located.MatchString(err.Error())):
			t.Errorf("%s: %s\n error is %v\n expected %s", c.rule, c.src, err, c.want)
		}
	}
}

// The code of NoError is 0, wherever a program declares errors of its own (7.1.2).
func TestErrorsInFront(t *testing.T) {
	text := "error { Mine }\n" + v1Text("", "", "error e; hdr.h.a = e == error.NoError ? 8w1 : 2; hdr.h.b = sm.parser_error == error.NoError ? 8w1 : 2; e = error.Mine; hdr.h.c = e == error.Mine ? 16w1 : 2;")
	exchange(t, loadText(t, text).New(), "00 00 0000 00000000 -> 01 01 0001 00000000")
}
