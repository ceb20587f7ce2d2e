package p4

import "testing"

// Headers (8.17), stacks (8.19), unions (8.20), tuples and structs (8.12, 8.16).
func TestRulesOfHeaders(t *testing.T) {
	const top = `
header two_t { bit<8> v; bit<8> w; }
header_union u_t { one_t x; two_t y; }
struct deep_t { one_t h; one_t[2] st; u_t u; }
bit<8> valids(in one_t[4] s) { return (s[0].isValid() ? 8w8 : 0) + (s[1].isValid() ? 8w4 : 0) + (s[2].isValid() ? 8w2 : 0) + (s[3].isValid() ? 8w1 : 0); }
`
	const zero = "00 00 0000 00000000 -> "
	const four = "one_t[4] st; st[0] = { 1 }; st[1] = { 2 }; st[3] = { 4 }; "
	const shown = "hdr.h.a = valids(st); hdr.h.d = st[0].v ++ st[1].v ++ st[2].v ++ st[3].v;"
	exchangeAll(t, []frameRule{
		{"8.17: a header begins invalid", top, "", "one_t x; hdr.h.a = x.isValid() ? 8w1 : 2;", []string{zero + "02 00 0000 00000000"}},
		{"8.17: a list makes it valid", top, "", "one_t x; x = { 5 }; hdr.h.a = x.isValid() ? x.v : 2;", []string{zero + "05 00 0000 00000000"}},
		{"8.17: fields by name make it valid", top, "", "two_t x; x = { w = 6, v = 5 }; hdr.h.a = x.isValid() ? x.v : 2; hdr.h.b = x.w;", []string{zero + "05 06 0000 00000000"}},
		{"8.17: a field that is written does not", top, "", "one_t x; x.v = 5; hdr.h.a = x.isValid() ? 8w1 : 2;", []string{zero + "02 00 0000 00000000"}},
		{"8.17: assignment copies validity", top, "", "one_t x; one_t y; y = { 5 }; y = x; hdr.h.a = y.isValid() ? 8w1 : 2; x = { 3 }; y = x; hdr.h.b = y.isValid() ? y.v : 0;", []string{zero + "02 03 0000 00000000"}},
		{"8.17: {#} makes it invalid", top, "", "one_t x; x = { 5 }; x = {#}; hdr.h.a = x.isValid() ? 8w1 : 2;", []string{zero + "02 00 0000 00000000"}},
		{"8.17: h == {#} is !h.isValid()", top, "", "one_t x; hdr.h.a = x == {#} ? 8w1 : 2; x = { 0 }; hdr.h.b = x == {#} ? 8w1 : 2;", []string{zero + "01 02 0000 00000000"}},
		{"8.17: invalid ones are equal whatever they hold", top, "", "one_t x; one_t y; x = { 5 }; x.setInvalid(); hdr.h.a = x == y ? 8w1 : 2;", []string{zero + "01 00 0000 00000000"}},
		{"8.17: a valid one equals no invalid one", top, "", "one_t x; one_t y; x = { 0 }; hdr.h.a = x == y ? 8w1 : 2; hdr.h.b = x != y ? 8w1 : 2;", []string{zero + "02 01 0000 00000000"}},
		{"8.17: setValid keeps the fields", top, "", "one_t x; x = { 5 }; x.setInvalid(); x.setValid(); hdr.h.a = x.v;", []string{zero + "05 00 0000 00000000"}},
		{"8.17: compared with a list", top, "", "two_t x; x = { 1, 2 }; hdr.h.a = x == { 1, 2 } ? 8w1 : 2; hdr.h.b = x == (two_t){ w = 1, v = 2 } ? 8w1 : 2;", []string{zero + "01 02 0000 00000000"}},
		{"8.26: ... gives an invalid header and zeros", top, "", "deep_t d = { h = { 1 }, ... }; hdr.h.a = d.h.v; hdr.h.b = d.st[0].isValid() || d.u.isValid() ? 8w1 : 2;", []string{zero + "01 02 0000 00000000"}},

		{"8.26: ... in a constant", top + "struct in2_t { bit<8> a; tuple<bit<8>, bool> t; error e; } struct nest2_t { bit<8> n; in2_t i; one_t o; } const nest2_t kz = { n = 1, ... }; const nest2_t ky = { 2, ... };", "",
			"hdr.h.a = kz.n; hdr.h.b = kz.i.a + 3; nest2_t q = kz; hdr.h.c = kz.i.t[1] || q.o.isValid() || q.i.e != error.NoError ? 16w1 : 2; hdr.h.d[7:0] = q.i.t[0] + ky.n;", []string{zero + "01 03 0002 00000002"}},
		{"8.19: size", top, "", four + "hdr.h.c = (bit<16>)st.size;", []string{zero + "00 00 0004 00000000"}},
		{"8.19: push_front by 1", top, "", four + "st.push_front(1); st[0].v = 0; " + shown, []string{zero + "06 00 0000 00010200"}},
		{"8.19: push_front by all", top, "", four + "st.push_front(4); hdr.h.a = valids(st);", []string{zero + "00 00 0000 00000000"}},
		{"8.19: push_front by more than the size", top, "", four + "st.push_front(9); hdr.h.a = valids(st);", []string{zero + "00 00 0000 00000000"}},
		{"8.19: pop_front by 1", top, "", four + "st.pop_front(1); st[3].v = 0; st[1].v = 0; " + shown, []string{zero + "0a 00 0000 02000400"}},
		{"8.19: pop_front by more than the size", top, "", four + "st.pop_front(9); hdr.h.a = valids(st);", []string{zero + "00 00 0000 00000000"}},
		{"8.19: assignment copies all elements", top, "", four + "one_t[4] r; r[2] = { 7 }; r = st; hdr.h.a = valids(r); hdr.h.b = r[3].v;", []string{zero + "0d 04 0000 00000000"}},
		{"8.19: equal element by element", top, "", four + "one_t[4] r; r = st; hdr.h.a = r == st ? 8w1 : 2; r[2] = { 0 }; hdr.h.b = r == st ? 8w1 : 2;", []string{zero + "01 02 0000 00000000"}},
		{"8.19: an index beyond the end at run time reads 0 and writes nothing", top, "", four + "st[hdr.h.b].v = 9; hdr.h.c = 8w0 ++ st[hdr.h.b].v; " + shown, []string{"00 04 0000 00000000 -> 0d 04 0000 01020004", "00 03 0000 00000000 -> 0d 03 0009 01020009"}},
		{"8.19.1: a list of headers", top, "", "one_t[2] r; r = { { 3 }, (one_t){#} }; hdr.h.a = r[0].v; hdr.h.b = r[1].isValid() ? 8w1 : 2;", []string{zero + "03 02 0000 00000000"}},
		{"8.19.1: a cast list of headers", top, "", "hdr.h.a = ((one_t[2]){ { 3 }, { 4 } })[1].v;", []string{zero + "04 00 0000 00000000"}},

		{"8.20: setValid of one makes the other invalid", top, "", "u_t u; u.x.setValid(); u.y.setValid(); hdr.h.a = u.x.isValid() ? 8w1 : 2; hdr.h.b = u.y.isValid() ? 8w1 : 2;", []string{zero + "02 01 0000 00000000"}},
		{"8.20: setInvalid of either makes all invalid", top, "", "u_t u; u.x = { 1 }; u.y.setInvalid(); hdr.h.a = u.isValid() ? 8w1 : 2;", []string{zero + "02 00 0000 00000000"}},
		{"8.20: a member that is assigned", top, "", "u_t u; u.x = { 1 }; u.y = { 2, 3 }; hdr.h.a = u.x.isValid() ? 8w1 : 2; hdr.h.b = u.y.w;", []string{zero + "02 03 0000 00000000"}},
		{"8.20: an invalid header that is assigned", top, "", "u_t u; one_t n; u.y = { 2, 3 }; u.x = n; hdr.h.a = u.isValid() ? 8w1 : 2;", []string{zero + "02 00 0000 00000000"}},
		{"8.20: an invalid header that is assigned to itself", top, "", "u_t u; u.y = { 2, 3 }; u.x = u.x; hdr.h.a = u.isValid() ? 8w1 : 2; u.y = { 2, 3 }; u.y = u.y; hdr.h.b = u.y.w;", []string{zero + "02 03 0000 00000000"}},
		{"8.20: {#} to a member", top, "", "u_t u; u.y = { 2, 3 }; u.y = {#}; hdr.h.a = u.isValid() ? 8w1 : 2;", []string{zero + "02 00 0000 00000000"}},
		{"8.20: {#} to a union", top, "", "u_t u; u.y = { 2, 3 }; u = {#}; hdr.h.a = u.isValid() ? 8w1 : 2;", []string{zero + "02 00 0000 00000000"}},
		{"8.20: a union compared with {#}", top, "", "u_t u; hdr.h.a = u == (u_t){#} ? 8w1 : 2; u.x = { 0 }; hdr.h.b = u == (u_t){#} ? 8w1 : 2;", []string{zero + "01 02 0000 00000000"}},
		{"8.20: a union is copied", top, "", "u_t u; u_t w; u.y = { 2, 3 }; w.x = { 1 }; w = u; hdr.h.a = w.x.isValid() ? 8w1 : 2; hdr.h.b = w.y.w;", []string{zero + "02 03 0000 00000000"}},
		{"8.20: out of a member", top + "void f(out one_t h) { h.setValid(); h.v = 7; }", "", "u_t u; u.y = { 2, 3 }; f(u.x); hdr.h.a = u.x.v; hdr.h.b = u.y.isValid() ? 8w1 : 2;", []string{zero + "07 02 0000 00000000"}},
		{"8.20: a stack of unions", top, "", "u_t[2] us; us[hdr.h.a].x = { 5 }; us[0].y = { 6, 7 }; hdr.h.b = us[0].x.isValid() ? 8w1 : us[0].y.w; hdr.h.c = us[1].isValid() ? 16w1 : 2;", []string{zero + "00 07 0002 00000000", "01 00 0000 00000000 -> 01 07 0001 00000000"}},

		{"8.20: an index that changes something is evaluated once", top + counting, "u_t[4] us;", "us[add(hdr.h.a, 1)].x = { 5 }; hdr.h.b = us[1].x.v;", []string{zero + "01 05 0000 00000000"}},
		{"8.20: also that of setValid", top + counting, "u_t[4] us;", "us[add(hdr.h.a, 1)].x.setValid(); hdr.h.b = us[1].isValid() ? 8w1 : 2;", []string{zero + "01 01 0000 00000000"}},
		{"8.20: also that of an out argument", top + counting + "void f(out one_t h) { h.setValid(); h.v = 7; }", "u_t[4] us;", "f(us[add(hdr.h.a, 1)].x); hdr.h.b = us[1].x.v;", []string{zero + "01 07 0000 00000000"}},
		{"8.19: an index that changes something, of a header that is read", top + counting, "one_t[4] st;", "st[1] = { 5 }; one_t x = st[add(hdr.h.a, 1)]; hdr.h.b = x.v + st[add(hdr.h.a, 0)].v;", []string{zero + "01 0a 0000 00000000"}},
		{"8.19: of a header that is made valid", top + counting, "one_t[4] st;", "st[add(hdr.h.a, 1)].setValid(); hdr.h.b = st[1].isValid() ? 8w1 : 2;", []string{zero + "01 01 0000 00000000"}},
		{"8.19: of a slice", top + counting, "one_t[4] st;", "st[1] = { 0x12 }; st[add(hdr.h.a, 1)].v[7:4] = 5; hdr.h.b = st[1].v;", []string{zero + "01 52 0000 00000000"}},
		{"8.12: elements by index", top, "", "tuple<bit<8>, bit<16>> q = { 3, 0x405 }; hdr.h.a = q[0]; hdr.h.c = q[1];", []string{zero + "03 00 0405 00000000"}},
		{"8.12: an element that is assigned, as p4c takes it", top, "", "tuple<bit<8>, bit<16>> q = { 3, 0x405 }; q[0] = 7; q[1][7:0] = 9; hdr.h.a = q[0]; hdr.h.c = q[1];", []string{zero + "07 00 0409 00000000"}},
		{"8.12: tuples that are equal", top, "", "tuple<bit<8>, bit<16>> q = { 3, 0x405 }; tuple<bit<8>, bit<16>> r = { hdr.h.b, 0x405 }; hdr.h.a = q == r ? 8w1 : 2;", []string{"00 03 0000 00000000 -> 01 03 0000 00000000", "00 04 0000 00000000 -> 02 04 0000 00000000"}},
		{"8.16: structs that are equal", top, "", "pair2_t p = { 1, hdr.h.b }; hdr.h.a = p == { 1, 2 } ? 8w1 : 2; hdr.h.c = p == (pair2_t){ y = 2, x = 1 } ? 16w1 : 2;", []string{"00 02 0000 00000000 -> 01 02 0001 00000000", "00 03 0000 00000000 -> 02 03 0002 00000000"}},
		{"8.16: a struct of a header is equal with its validity", top, "", "deep_t d; deep_t e; d.h = { 0 }; hdr.h.a = d == e ? 8w1 : 2; e.h = { 0 }; hdr.h.b = d == e ? 8w1 : 2;", []string{zero + "02 01 0000 00000000"}},
		{"8.3: a value that no member has", "enum bit<8> code_t { A = 1, B = 2 }", "", "code_t e = (code_t)hdr.h.a; hdr.h.b = e == code_t.A ? 8w1 : e == code_t.B ? 2 : 3; hdr.h.c = (bit<16>)(bit<8>)e;", []string{"01 00 0000 00000000 -> 01 01 0001 00000000", "07 00 0000 00000000 -> 07 03 0007 00000000"}},
		{"8.3: two members of one value", "enum bit<8> code_t { A = 1, B = 1 }", "", "hdr.h.a = code_t.A == code_t.B ? 8w1 : 2; hdr.h.b = code_t.B + 1;", []string{zero + "01 02 0000 00000000"}},
		{"8.3: of int<8>", "enum int<8> code_t { A = -1, B = 1 }", "", "code_t e = (code_t)(int<8>)hdr.h.a; hdr.h.b = e == code_t.A ? 8w1 : 2; hdr.h.c = (int<8>)e < 0 ? 16w1 : 2;", []string{"ff 00 0000 00000000 -> ff 01 0001 00000000"}},
		{"7.2.1: an enum begins as its first member", "enum e_t { A, B }", "", "e_t e; hdr.h.a = e == e_t.A ? 8w1 : 2; e = e_t.B; hdr.h.b = e != e_t.A ? 8w1 : 2;", []string{zero + "01 01 0000 00000000"}},
		{"9: sizes", "header v_t { bit<8> n; varbit<24> v; } header_union w_t { one_t o; v_t v; } struct s_t { one_t[3] a; v_t b; bool c; } type bit<9> n_t;", "v_t v; w_t w; s_t s; n_t n;",
			"hdr.h.d = (bit<8>)v.minSizeInBits() ++ (bit<8>)v.maxSizeInBits() ++ (bit<8>)v.maxSizeInBytes() ++ (bit<8>)n.minSizeInBytes(); hdr.h.a = (bit<8>)w.minSizeInBits(); hdr.h.b = (bit<8>)w.maxSizeInBits(); hdr.h.c = (bit<8>)s.minSizeInBits() ++ (bit<8>)s.maxSizeInBytes();",
			[]string{zero + "08 20 2108 08200402"}},
		{"9: the least of a union is the greatest of its members'", "header three_t { bit<24> v; } header_union w_t { one_t o; three_t t; }", "w_t w;", "hdr.h.a = (bit<8>)w.minSizeInBits(); hdr.h.b = (bit<8>)w.maxSizeInBytes();", []string{zero + "18 03 0000 00000000"}},
		{"7.3: the error of a variable begins as NoError", "", "", "error e; hdr.h.a = e == error.NoError ? 8w1 : 2;", []string{zero + "01 00 0000 00000000"}},
	})
}
