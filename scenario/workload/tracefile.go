package workload

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// The text formats of flow traces that other simulators read.
//
// HPCC's flow file (the ns-3 simulator of HPCC, SIGCOMM 2019, and those built on
// it): the number of flows, then a line for each,
//
//	src dst pg dport size start
//
// with node numbers, the priority group, the destination port, bytes, and the
// start in seconds. Its simulator reads as many flows as the number says, and nothing
// that follows.
//
// htsim's connection matrix: the lines "Nodes N" and "Connections M", then a line
// for each connection,
//
//	src->dst id ID start PICOSECONDS size BYTES
//
// with the pairs in any order; # begins a comment. Its triggers, by which one
// connection starts another, and its failures are refused.

// traceFlow is one flow of a trace.
type traceFlow struct {
	src, dst int32 // node numbers of the file
	line     int32
	group    uint8 // HPCC's priority group
	size     units.Bytes
	start    units.Time
}

// traceError is the error of a line of a trace.
type traceError struct {
	line  int
	field string // such as "size"; empty for the line
	msg   string
}

func (e *traceError) Error() string {
	if e.field == "" {
		return fmt.Sprintf("line %d: %s", e.line, e.msg)
	}
	return fmt.Sprintf("line %d: %s: %s", e.line, e.field, e.msg)
}

// Trace formats.
const (
	traceAuto  = "auto"
	traceHPCC  = "hpcc"
	traceHTSim = "htsim"
)

// maxTraceFlows bounds the flows of a trace.
const maxTraceFlows = 1 << 24

// parseTrace reads a trace in a format; auto is htsim's if the file begins with a
// word. rest is the first line of text that is left unread, as its owner leaves it, or 0.
func parseTrace(format string, src []byte) (flows []traceFlow, rest int, bad *traceError) {
	if format == traceAuto {
		format = traceHPCC
		if c := firstByte(src); c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c == '#' {
			format = traceHTSim
		}
	}
	if format == traceHTSim {
		flows, bad = parseHTSim(src)
		return flows, 0, bad
	}
	return parseHPCC(src)
}

func firstByte(src []byte) byte {
	if src = bytes.TrimSpace(src); len(src) > 0 {
		return src[0]
	}
	return 0
}

// traceLines hands out the words of each line that has some.
type traceLines struct {
	rest  []byte
	line  int
	words []string
}

func (l *traceLines) next() bool {
	for len(l.rest) > 0 {
		text, rest, _ := bytes.Cut(l.rest, []byte("\n"))
		l.rest = rest
		l.line++
		if l.words = strings.Fields(string(text)); len(l.words) > 0 {
			return true
		}
	}
	return false
}

func (l *traceLines) fail(field, format string, args ...any) *traceError {
	return &traceError{max(l.line, 1), field, fmt.Sprintf(format, args...)}
}

// whole reads a number of the present line.
func (l *traceLines) whole(field, text string, low, high int64) (int64, *traceError) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		return 0, l.fail(field, "%s is no whole number from %d to %d", quoteShort(text), low, high)
	}
	return n, nil
}

// quoteShort quotes what may be long.
func quoteShort(text string) string {
	if len(text) > 40 {
		text = text[:37] + "..."
	}
	return strconv.Quote(text)
}

// node and size read what both formats have.
func (l *traceLines) node(field, text string) (int32, *traceError) {
	n, err := l.whole(field, text, 0, math.MaxInt32)
	return int32(n), err
}

func (l *traceLines) size(text string) (units.Bytes, *traceError) {
	n, err := l.whole("size", text, 1, 1<<50)
	return units.Bytes(n), err
}

func (l *traceLines) ends(f *traceFlow) *traceError {
	if f.src == f.dst {
		return l.fail("dst", "the flow goes from node %d to itself: choose another destination", f.src)
	}
	return nil
}

// maxTraceSeconds bounds the times of a trace.
const maxTraceSeconds = 1_000_000

func parseHPCC(src []byte) (flows []traceFlow, rest int, bad *traceError) {
	l := &traceLines{rest: src}
	if !l.next() {
		return nil, 0, l.fail("", "the file is empty: it begins with the number of flows")
	}
	if len(l.words) != 1 {
		return nil, 0, l.fail("", "there are %d words where the number of flows belongs, alone on its line", len(l.words))
	}
	n, err := l.whole("flows", l.words[0], 0, maxTraceFlows)
	if err != nil {
		return nil, 0, err
	}
	for l.next() {
		if int64(len(flows)) == n {
			return flows, l.line, nil
		}
		if len(l.words) != 6 {
			return nil, 0, l.fail("", "there are %d words where a flow has 6: src dst pg dport size start", len(l.words))
		}
		f, err := l.hpccFlow()
		if err != nil {
			return nil, 0, err
		}
		flows = append(flows, f)
	}
	if int64(len(flows)) < n {
		return nil, 0, l.fail("", "the file ends after %d of the %d flows that it begins with: correct the number", len(flows), n)
	}
	return flows, 0, nil
}

func (l *traceLines) hpccFlow() (f traceFlow, err *traceError) {
	f.line = int32(l.line)
	if f.src, err = l.node("src", l.words[0]); err != nil {
		return f, err
	}
	if f.dst, err = l.node("dst", l.words[1]); err != nil {
		return f, err
	}
	group, err := l.whole("pg", l.words[2], 0, 7)
	if err != nil {
		return f, err
	}
	f.group = uint8(group)
	if _, err = l.whole("dport", l.words[3], 0, math.MaxUint16); err != nil {
		return f, err
	}
	if f.size, err = l.size(l.words[4]); err != nil {
		return f, err
	}
	seconds, bad := strconv.ParseFloat(l.words[5], 64)
	if bad != nil || !(seconds >= 0 && seconds <= maxTraceSeconds) {
		return f, l.fail("start", "%s is no time in seconds, such as 2.000125", quoteShort(l.words[5]))
	}
	f.start = units.Time(math.Round(float64(seconds * 1e12)))
	return f, l.ends(&f)
}

func parseHTSim(src []byte) ([]traceFlow, *traceError) {
	l := &traceLines{rest: src}
	nodes, connections := int64(-1), int64(-1)
	var flows []traceFlow
	var err *traceError
	for l.next() {
		first := l.words[0]
		switch {
		case first[0] == '#':
		case first == "Nodes" || first == "Connections" || first == "Triggers" || first == "Failures":
			var n int64
			if len(l.words) != 2 {
				return nil, l.fail(first, "there are %d words where a number belongs", len(l.words)-1)
			}
			if n, err = l.whole(first, l.words[1], 0, math.MaxInt32); err != nil {
				return nil, err
			}
			switch {
			case first == "Nodes":
				nodes = n
			case first == "Connections":
				connections = n
			case n > 0:
				return nil, l.fail(first, "there are %d, which no workload follows: give every connection a start, and failures in fabric.failures", n)
			}
		case strings.Contains(first, "->"):
			var f traceFlow
			if f, err = l.htsimFlow(nodes); err != nil {
				return nil, err
			}
			if len(flows) == maxTraceFlows {
				return nil, l.fail("", "the file has more than %d connections: split it", maxTraceFlows)
			}
			flows = append(flows, f)
		case first == "trigger" || first == "failure":
			return nil, l.fail(first, "no workload follows it: give every connection a start, and failures in fabric.failures")
		default:
			return nil, l.fail("", "%s is neither Nodes, Connections nor a connection such as 0->5 id 1 start 0 size 2000000", quoteShort(first))
		}
	}
	if connections < 0 {
		return nil, l.fail("Connections", "the line is missing: write Connections %d", len(flows))
	}
	if int64(len(flows)) != connections {
		return nil, l.fail("Connections", "the file says %d and has %d: correct the number", connections, len(flows))
	}
	return flows, nil
}

func (l *traceLines) htsimFlow(nodes int64) (f traceFlow, err *traceError) {
	f.line = int32(l.line)
	src, dst, _ := strings.Cut(l.words[0], "->")
	if f.src, err = l.node("src", src); err != nil {
		return f, err
	}
	if f.dst, err = l.node("dst", dst); err != nil {
		return f, err
	}
	if nodes >= 0 && int64(max(f.src, f.dst)) >= nodes {
		return f, l.fail("dst", "%s names a node beyond the %d of the line Nodes: they are 0 to %d", quoteShort(l.words[0]), nodes, nodes-1)
	}
	sized, started := false, false
	for i := 1; i < len(l.words); i += 2 {
		key := l.words[i]
		if i+1 == len(l.words) {
			return f, l.fail(key, "its value is missing")
		}
		value := l.words[i+1]
		switch key {
		case "size":
			f.size, err = l.size(value)
			sized = true
		case "start":
			ps, bad := strconv.ParseFloat(value, 64)
			if bad != nil || !(ps >= 0 && ps <= maxTraceSeconds*1e12) {
				return f, l.fail(key, "%s is no time in picoseconds", quoteShort(value))
			}
			f.start = units.Time(math.Round(ps))
			started = true
		case "id", "prio":
			_, err = l.whole(key, value, 0, math.MaxInt64)
		case "trigger", "send_done_trigger", "recv_done_trigger":
			return f, l.fail(key, "no workload follows triggers: give the connection a start")
		default:
			return f, l.fail("", "%s is no key of a connection: the keys are id, start, size and prio", quoteShort(key))
		}
		if err != nil {
			return f, err
		}
	}
	switch {
	case !sized:
		return f, l.fail("size", "it is missing: give the bytes of the connection, such as size 2000000")
	case !started:
		return f, l.fail("start", "it is missing: give a time in picoseconds, such as start 0")
	}
	return f, l.ends(&f)
}
