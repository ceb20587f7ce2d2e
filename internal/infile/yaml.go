package infile

import (
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"

	"github.com/sluice-rdma/sluice/units"
)

// What YAML may have. The parser takes half a kilobyte for each token, memory with the
// square of how deep values lie within each other in one line, and time with the square of
// how many keys a block mapping has, and of how many documents there are.
const (
	// MaxYAML is of a whole text.
	MaxYAML      = units.MiB
	maxTokens    = 250_000
	maxKeys      = 1000 // of one mapping in block style
	maxDocuments = 16
)

// YAMLError is what CheckYAML finds.
type YAMLError struct {
	Line int // from 1; 0 is the whole
	Msg  string
}

func (e *YAMLError) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Msg)
}

// YAML decodes a text as yaml.UnmarshalWithOptions does, but refuses what Tokens does, and
// aliases that don't end or grow too large.
func YAML(text []byte, pointer any, options ...yaml.DecodeOption) error {
	tokens, err := Tokens(text)
	if err == nil && slices.ContainsFunc(tokens, func(t *token.Token) bool { return t.Type == token.AliasType }) {
		err = checkAliases(tokens)
	}
	if err != nil {
		return err
	}
	return yaml.UnmarshalWithOptions(text, pointer, options...)
}

// Tokens splits a text for the parser, unless that would take too long with it, or too much
// memory: then the error is a *YAMLError.
func Tokens(text []byte) (token.Tokens, error) {
	if units.Bytes(len(text)) > MaxYAML {
		return nil, &YAMLError{0, fmt.Sprintf("the text has %v, and YAML is read up to %v: lists of flows go into a file of their own", units.Bytes(len(text)), MaxYAML)}
	}
	// Before the lexer, which takes a few hundred bytes for each token: each but for every
	// other one begins with, or is ended by, one of these.
	line, signs := 1, 0
	for _, c := range text {
		switch c {
		case '\n', '\r':
			line++
			signs++
		case '[', ']', '{', '}', ',', ':', '-', '?', '&', '*', '!', '"', '\'', '%', '@', '`', '#', '|', '>':
			signs++
		}
		if signs > maxTokens {
			return nil, tooMany(line)
		}
	}
	tokens := lexer.Tokenize(string(text))
	if len(tokens) > maxTokens {
		return nil, tooMany(tokens[maxTokens].Position.Line)
	}
	return tokens, checkTokens(tokens)
}

func tooMany(line int) error {
	return &YAMLError{line, fmt.Sprintf("more than %d words and signs up to here: lists of flows go into a file of their own", maxTokens)}
}

// block is a mapping in block style that goes on: its keys stand in a column.
type block struct{ column, keys int }

func checkTokens(tokens token.Tokens) error {
	brackets, dashes, line, documents := 0, 0, 0, 0
	var blocks []block // each to the right of the one before
	for i, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		key := (*token.Token)(nil)
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
		case token.SequenceEntryType:
			dashes++
			for len(blocks) > 0 && blocks[len(blocks)-1].column > t.Position.Column {
				blocks = blocks[:len(blocks)-1]
			}
		case token.MappingKeyType:
			dashes++
			key = t
		case token.MappingValueType:
			if i > 0 && (i < 2 || tokens[i-2].Type != token.MappingKeyType) {
				key = tokens[i-1]
			}
		case token.DocumentHeaderType:
			blocks = blocks[:0]
			if documents++; documents > maxDocuments {
				return &YAMLError{line, fmt.Sprintf("more than %d documents: put one in a file", maxDocuments)}
			}
		}
		if key != nil && brackets <= 0 {
			for len(blocks) > 0 && blocks[len(blocks)-1].column > key.Position.Column {
				blocks = blocks[:len(blocks)-1]
			}
			if len(blocks) == 0 || blocks[len(blocks)-1].column < key.Position.Column {
				blocks = append(blocks, block{column: key.Position.Column})
			}
			if b := &blocks[len(blocks)-1]; b.keys >= maxKeys {
				return &YAMLError{line, fmt.Sprintf("a mapping with more than %d keys: write a list, or leave keys out", maxKeys)}
			}
			blocks[len(blocks)-1].keys++
		}
		if max(brackets, dashes, len(blocks)) > MaxDepth {
			return &YAMLError{line, fmt.Sprintf("more than %d values lie within each other here", MaxDepth)}
		}
	}
	return nil
}
