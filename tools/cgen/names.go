package main

import (
	"strings"
	"unicode"
)

// snake returns a Go name as C writes it: OnCNP is on_cnp, minRTT min_rtt.
func snake(name string) string {
	var b strings.Builder
	r := []rune(name)
	for i, c := range r {
		if unicode.IsUpper(c) && i > 0 && r[i-1] != '_' {
			before := !unicode.IsUpper(r[i-1])
			// The last capital of a row begins the next word, but for a plural: CNPs.
			next := i+1 < len(r) && unicode.IsLower(r[i+1]) && (r[i+1] != 's' || i+2 < len(r) && unicode.IsLower(r[i+2]))
			if before || next {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// reserved are C's words, and names that headers define as macros.
var reserved = map[string]bool{
	"auto": true, "break": true, "case": true, "char": true, "const": true, "continue": true, "default": true, "do": true,
	"double": true, "else": true, "enum": true, "extern": true, "float": true, "for": true, "goto": true, "if": true,
	"inline": true, "int": true, "long": true, "register": true, "restrict": true, "return": true, "short": true,
	"signed": true, "sizeof": true, "static": true, "struct": true, "switch": true, "typedef": true, "union": true,
	"unsigned": true, "void": true, "volatile": true, "while": true, "bool": true, "true": true, "false": true, "NULL": true,
	// C++, whose programs include the header too.
	"class": true, "delete": true, "explicit": true, "export": true, "friend": true, "namespace": true, "new": true,
	"operator": true, "private": true, "protected": true, "public": true, "template": true, "this": true, "throw": true,
	"try": true, "typename": true, "using": true, "virtual": true, "unix": true, "linux": true,
}

// name returns a Go name as that of a C variable or field.
func name(s string) string {
	s = snake(s)
	if reserved[s] {
		return s + "_"
	}
	return s
}
