package p4

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

var tokens = regexp.MustCompile(`\s+|//.*|/\*(?s:.*?)\*/|"(?:\\.|[^"])*"|[A-Za-z_]\w*|[0-9][\w]*|\+\+|<<|&&&|&&|\|\||\|[+-]\||[=!<>]=|\.\.\.?|.`)

// What mutations put in beside the program's own tokens: what the grammar and the checker
// treat apart.
var vocabulary = strings.Fields(`_ 0 1 -1 255 8w1 4s3 65537 (bit<8>) bit<0> bit<9> int<7> int varbit<8> bool string void error match_kind
	tuple<bit<8>,bool> list<bool> ... {#} {} {1,2} {a=1} () [0] [3:0] [0+:2] ++ |+| / % << &&& .. ? : ; , . @optional @name("x") const in out inout
	this default true exit; return; break; if(true) else for switch select transition accept reject apply action table key actions entries
	state parser control extern package struct header header_union enum typedef type abstract .apply() .hit .next .last .isValid() <_> <bit<8>> <bit<8>,_>`)

// mutate changes some of a program's tokens. An edit is five bytes: what to do,
// the token that is changed, and another.
func mutate(src string, edits []byte) string {
	toks := tokens.FindAllString(src, -1)
	for ; len(edits) >= 5 && len(toks) > 0; edits = edits[5:] {
		i := (int(edits[1])<<8 | int(edits[2])) % len(toks)
		j := (int(edits[3])<<8 | int(edits[4])) % len(toks)
		for k := 0; k < len(toks) && strings.TrimSpace(toks[i]) == ""; k++ {
			i = (i + 1) % len(toks)
		}
		for k := 0; k < len(toks) && strings.TrimSpace(toks[j]) == ""; k++ {
			j = (j + 1) % len(toks)
		}
		word := vocabulary[(int(edits[3])<<8|int(edits[4]))%len(vocabulary)]
		switch edits[0] % 12 {
		case 0:
			toks[i] = ""
		case 1:
			toks[i] += " " + toks[i]
		case 2:
			toks[i], toks[j] = toks[j], toks[i]
		case 3:
			toks[i] = toks[j]
		case 4:
			toks[i] = word
		case 5:
			toks[i] += " " + word
		case 6: // a stretch of the program once more
			toks[i] += " " + strings.Join(toks[j:min(j+12, len(toks))], "")
		case 7: // or left out
			for k := i; k < min(i+1+int(edits[4])%12, len(toks)); k++ {
				toks[k] = ""
			}
		default: // a token of the same kind, so that more of the program still makes sense
			for k := 0; k < len(toks) && kindOf(toks[i]) != kindOf(toks[j]); k++ {
				j = (j + 1) % len(toks)
			}
			toks[i] = toks[j]
		}
	}
	return strings.Join(toks, "")
}

// kindOf tells names, numbers and the rest apart.
func kindOf(tok string) byte {
	switch c := (tok + " ")[0]; {
	case c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z':
		return 'a'
	case c >= '0' && c <= '9':
		return '0'
	default:
		return c
	}
}

// realPrograms are Sluice's own programs, those of the tests, and, if SLUICE_P4C names
// directories, separated by colons, those there: the reference compiler's, and others.
func realPrograms(t testing.TB) []string {
	t.Helper()
	patterns := []string{"*.p4", "testdata/*.p4"}
	for _, dir := range filepath.SplitList(os.Getenv("SLUICE_P4C")) {
		patterns = append(patterns, filepath.Join(dir, "*.p4"))
	}
	var out []string
	for _, p := range patterns {
		files, err := filepath.Glob(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if errors.Is(err, fs.ErrNotExist) {
				continue // a link to nothing
			}
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, string(b))
		}
	}
	return out
}

var located = regexp.MustCompile(`^[^:]+:\d+:\d+: .`)

// mutationBytes bounds what one changed program may allocate: the largest real programs take less than 100 MiB.
const mutationBytes = 4 << 30

// A program with some tokens changed gets errors with positions, or runs, within bounds.
func FuzzMutation(f *testing.F) {
	sources := realPrograms(f)
	r := rand.New(rand.NewPCG(19, 6))
	for i := range sources {
		for range 12 {
			edits := make([]byte, 5*(1+r.IntN(4)))
			for k := range edits {
				edits[k] = byte(r.Uint32())
			}
			f.Add(uint16(i), edits, i%2 == 1)
		}
	}
	f.Fuzz(func(t *testing.T, which uint16, edits []byte, tofino2 bool) {
		src := mutate(sources[int(which)%len(sources)], edits[:min(len(edits), 60)])
		var o Options
		if tofino2 {
			o.Define = []string{"__TARGET_TOFINO__=2"}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		defer func() {
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > mutationBytes {
				t.Errorf("%d bytes were allocated\n%s", n, src)
			}
		}()
		p, err := LoadFS(fstest.MapFS{"p.p4": {Data: []byte(src)}}, "p.p4", o)
		if err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				if !located.MatchString(line) {
					t.Errorf("an error without a position: %s\n%s", line, src)
				}
			}
			return
		}
		var v Verdict
		pl := p.New()
		pl.Process(make([]byte, 100), &Intrinsic{IngressPort: 1}, &v)
	})
}
