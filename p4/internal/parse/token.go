package parse

import (
	"fmt"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
)

// Error is a fault of the program's text at a place.
type Error struct {
	Pos ast.Pos
	Msg string
}

// Error gives file:line:column: message.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Pos, e.Msg) }

type kind uint8

const (
	tEOF kind = iota
	tIdent
	tInt
	tString
	tPunct
	tDirective // a whole preprocessor line, text without the #
	tBad       // text holds the error
)

type token struct {
	kind kind
	text string
	pos  ast.Pos
	// bol: first on its line. glued: no space before it.
	bol, glued bool
	// hide: do not expand this name again.
	hide bool
}

func (t token) String() string {
	switch t.kind {
	case tEOF:
		return "the end of the file"
	case tString:
		return fmt.Sprintf("%q", t.text)
	}
	return "'" + t.text + "'"
}

// Of tokens with a common beginning the longest comes first. ">>" is left to the
// parser, since it also closes two lists of type arguments.
var puncts = []string{
	"|+|=", "|-|=", "<<=", "&&&", "...", "|+|", "|-|",
	"<<", "<=", ">=", "==", "!=", "&&", "||", "++", "..",
	"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##", "+:",
	"+", "-", "*", "/", "%", "<", ">", "=", "!", "~", "&", "|", "^",
	"(", ")", "[", "]", "{", "}", ":", ";", ",", ".", "?", "@", "#",
}

type lexer struct {
	file      string
	src       string
	off       int
	line, col int
	bol       bool
	// inDirective: no directives, and newlines cannot occur.
	inDirective bool
	// skipping: the text is in a branch that is not taken; no string spans lines.
	skipping bool
}

func (l *lexer) pos() ast.Pos { return ast.Pos{File: l.file, Line: l.line, Col: l.col} }

func (l *lexer) advance(n int) {
	for i := 0; i < n && l.off < len(l.src); i++ {
		if l.src[l.off] == '\n' {
			l.line++
			l.col = 1
			l.bol = true
		} else {
			l.col++
		}
		l.off++
	}
}

func (l *lexer) has(s string) bool {
	return len(l.src)-l.off >= len(s) && l.src[l.off:l.off+len(s)] == s
}

// continuation gives the length of a backslash and line end here, with blanks between them or not, or 0.
func (l *lexer) continuation() int {
	if l.src[l.off] != '\\' {
		return 0
	}
	for i := l.off + 1; i < len(l.src); i++ {
		switch l.src[i] {
		case '\n':
			return i + 1 - l.off
		case ' ', '\t', '\r', '\f', '\v':
		default:
			return 0
		}
	}
	return 0
}

// comment skips a comment that begins here. It says false if there is none.
func (l *lexer) comment() (ok, closed bool) {
	if l.has("//") {
		for l.off < len(l.src) && l.src[l.off] != '\n' {
			if n := l.continuation(); n > 0 {
				l.skipContinuation(n)
				continue
			}
			l.advance(1)
		}
		return true, true
	}
	if !l.has("/*") {
		return false, true
	}
	bol := l.bol
	l.advance(2)
	for l.off < len(l.src) {
		if l.has("*/") {
			l.advance(2)
			l.bol = l.bol || bol
			return true, true
		}
		l.advance(1)
	}
	return true, false
}

func (l *lexer) skipContinuation(n int) {
	bol := l.bol
	l.advance(n)
	l.bol = bol
}

func isLetter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// next gives the next token, comments and space left out.
func (l *lexer) next() token {
	glued, bad := l.space()
	if bad != nil {
		return *bad
	}
	t := token{pos: l.pos(), bol: l.bol, glued: glued}
	l.bol = false
	if l.off >= len(l.src) {
		return t
	}
	switch c := l.src[l.off]; {
	case c == '#' && t.bol && !l.inDirective:
		t.kind = tDirective
		t.text = l.directive()
	case isLetter(c):
		t.kind, t.text = tIdent, l.word()
	case isDigit(c):
		t.kind, t.text = tInt, l.word()
	case c == '"':
		return l.str(t)
	default:
		t.kind, t.text = tPunct, l.punct()
	}
	return t
}

// space skips space and comments. It says whether there are none; bad is a comment without an end.
func (l *lexer) space() (glued bool, bad *token) {
	glued = true
	for l.off < len(l.src) {
		if n := l.continuation(); n > 0 {
			l.skipContinuation(n)
			glued = false
			continue
		}
		switch l.src[l.off] {
		case ' ', '\t', '\r', '\n', '\f', '\v':
			l.advance(1)
		case '/':
			p := l.pos()
			ok, closed := l.comment()
			if !closed {
				return false, &token{kind: tBad, text: "this comment has no end: close it with */", pos: p}
			}
			if !ok {
				return glued, nil
			}
		default:
			return glued, nil
		}
		glued = false
	}
	return glued, nil
}

// word takes a name or a number.
func (l *lexer) word() string {
	n := 1
	for l.off+n < len(l.src) && (isLetter(l.src[l.off+n]) || isDigit(l.src[l.off+n])) {
		n++
	}
	return l.take(n)
}

func (l *lexer) punct() string {
	for _, p := range puncts {
		if l.has(p) {
			l.advance(len(p))
			return p
		}
	}
	// Whatever it is, an annotation may hold it; the grammar refuses it elsewhere.
	n := 1
	for l.off+n < len(l.src) && l.src[l.off+n]&0xc0 == 0x80 {
		n++
	}
	return l.take(n)
}

func (l *lexer) take(n int) string {
	s := l.src[l.off : l.off+n]
	l.advance(n)
	return s
}

func (l *lexer) str(t token) token {
	l.advance(1)
	var b []byte
	for {
		if l.off >= len(l.src) || l.src[l.off] == '\n' && (l.inDirective || l.skipping) {
			t.kind, t.text = tBad, "this string has no end: close it with a quote"
			return t
		}
		c := l.src[l.off]
		if c == '"' {
			l.advance(1)
			t.kind, t.text = tString, string(b)
			return t
		}
		if n := l.continuation(); n > 0 {
			l.skipContinuation(n)
			continue
		}
		if c == '\\' && l.off+1 < len(l.src) && (l.src[l.off+1] == '"' || l.src[l.off+1] == '\\') {
			l.advance(1)
			c = l.src[l.off]
		}
		b = append(b, c)
		l.advance(1)
	}
}

// directive takes the rest of the line behind a #, comments replaced by a
// space and continued lines joined.
func (l *lexer) directive() string {
	l.advance(1)
	var b []byte
	inStr := false
	for l.off < len(l.src) && l.src[l.off] != '\n' {
		if n := l.continuation(); n > 0 {
			l.skipContinuation(n)
			b = append(b, ' ')
			continue
		}
		if !inStr {
			if ok, _ := l.comment(); ok {
				b = append(b, ' ')
				continue
			}
		}
		if l.src[l.off] == '"' {
			inStr = !inStr
		}
		b = append(b, l.src[l.off])
		l.advance(1)
	}
	return string(b)
}
