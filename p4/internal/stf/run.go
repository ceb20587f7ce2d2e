package stf

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/p4/internal/run"
)

// settings are the intrinsic values of packets.
type settings struct {
	in                 run.Intrinsic
	enqueued, dequeued bool
}

// A Failure is a difference from what a file expects.
type Failure struct {
	Line int // of the command, 0 if none
	Text string
}

// A Result is how a file's run ended.
type Result struct {
	Packets  int // sent
	Expected int // packets that had to leave
	Failures []Failure
}

// Run runs a script on a new switch. An error is of a command that cannot be carried out, as
// an entry for a table that does not exist.
func Run(p *run.Program, s *Script) (Result, error) {
	pl := p.New()
	var r Result
	r0 := &runner{pl: pl, s: s, result: &r}
	pl.SetLog(nil)
	for i := range s.commands {
		c := &s.commands[i]
		if err := r0.command(c); err != nil {
			return r, fmt.Errorf("%s:%d: %w", s.name, c.Line, err)
		}
	}
	r0.compare()
	return r, nil
}

// Configure applies the commands of a text that set a switch's state (add, setdefault, register_write,
// mirroring_add, mc_mgrp_create and the like) to a switch. Any other command is an error.
func Configure(pl *run.Pipeline, name string, text []byte) error {
	s, err := Parse(name, text)
	if err != nil {
		return err
	}
	var res Result
	r := &runner{pl: pl, s: s, result: &res}
	for i := range s.commands {
		c := &s.commands[i]
		switch c.Op {
		case "packet", "expect", "check_register", "check_counter", "meta":
			return fmt.Errorf("%s:%d: %s sets no state of the switch", name, c.Line, c.Op)
		}
		if err := r.command(c); err != nil {
			return fmt.Errorf("%s:%d: %w", name, c.Line, err)
		}
	}
	return nil
}

type runner struct {
	pl     *run.Pipeline
	s      *Script
	set    settings
	v      run.Verdict
	sent   map[uint16][]sent
	nodes  [][]run.Replica
	groups map[int][]run.Replica
	result *Result
}

type sent struct {
	data []byte
	line int // of the packet
}

func (r *runner) fail(line int, format string, args ...any) {
	r.result.Failures = append(r.result.Failures, Failure{line, fmt.Sprintf(format, args...)})
}

func (r *runner) command(c *command) error {
	pl := r.pl
	switch c.Op {
	case "packet":
		r.send(c)
	case "add":
		return r.add(c)
	case "setdefault":
		return r.setDefault(c)
	case "remove":
		return r.clear()
	case "mirroring_add":
		pl.SetMirror(uint16(c.Numbers[0]), run.Mirror{Port: uint16(c.Numbers[1])})
	case "mirroring_add_mc":
		pl.SetMirror(uint16(c.Numbers[0]), run.Mirror{Group: uint16(c.Numbers[1])})
	case "mc_node_create", "mc_mgrp_create", "mc_node_associate":
		return r.multicast(c)
	case "register_write", "register_reset", "check_register":
		return r.register(c)
	case "check_counter":
		return r.counter(c)
	case "lpf_set", "wred_set":
		return r.filter(c)
	case "meta":
		for _, m := range c.Meta {
			if err := setMeta(&r.set, m.Name, m.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *runner) setDefault(c *command) error {
	t, err := r.pl.Program().Table(c.Table)
	if err != nil {
		return err
	}
	a, err := action(t, c)
	if err != nil {
		return err
	}
	return r.pl.SetDefault(t.Name, a)
}

// clear drops the entries of all tables.
func (r *runner) clear() error {
	for _, t := range r.pl.Program().Tables() {
		if err := r.pl.ClearTable(t.Name); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) filter(c *command) error {
	if c.Op == "wred_set" {
		w, err := r.pl.Wred(c.Name)
		if err != nil {
			return err
		}
		return w.Set(c.Index, run.EarlyDrop(c.EarlyDrop))
	}
	f, err := r.pl.Filter(c.Name)
	if err != nil {
		return err
	}
	return f.Set(c.Index, run.LowPass(c.LowPass))
}

// send sends a packet and keeps what leaves.
func (r *runner) send(c *command) {
	r.result.Packets++
	in := r.set.in
	in.IngressPort = c.Port
	if !r.set.enqueued {
		in.EnqueueTime = in.IngressTime
	}
	if !r.set.dequeued {
		in.DequeueTime = in.EnqueueTime
	}
	r.pl.Process(c.Data, &in, &r.v)
	if r.sent == nil {
		r.sent = map[uint16][]sent{}
	}
	for _, f := range r.v.Sent {
		r.sent[f.Port] = append(r.sent[f.Port], sent{slices.Clone(f.Data), c.Line})
	}
	if r.v.Asserts > 0 {
		r.fail(c.Line, "packet: %d of the program's assertions are false", r.v.Asserts)
	}
}

func (r *runner) multicast(c *command) error {
	switch c.Op {
	case "mc_node_create":
		var n []run.Replica
		for _, p := range c.Numbers[1:] {
			n = append(n, run.Replica{Port: uint16(p), ID: uint16(c.Numbers[0])})
		}
		r.nodes = append(r.nodes, n)
	case "mc_mgrp_create":
		if r.groups == nil {
			r.groups = map[int][]run.Replica{}
		}
		r.groups[c.Numbers[0]] = nil
	case "mc_node_associate":
		g, ok := r.groups[c.Numbers[0]]
		if !ok {
			return fmt.Errorf("no multicast group %d: mc_mgrp_create makes one", c.Numbers[0])
		}
		if c.Numbers[1] >= len(r.nodes) {
			return fmt.Errorf("no multicast node %d: there are %d", c.Numbers[1], len(r.nodes))
		}
		g = append(g, r.nodes[c.Numbers[1]]...)
		r.groups[c.Numbers[0]] = g
		r.pl.SetMulticast(uint16(c.Numbers[0]), g)
	}
	return nil
}

func (r *runner) register(c *command) error {
	reg, err := r.pl.Register(c.Name)
	if err != nil {
		return err
	}
	switch c.Op {
	case "register_write":
		return reg.Write(c.Index, c.Value.Uint64())
	case "register_reset":
		reg.Reset()
	case "check_register":
		if c.Index >= reg.Len() {
			return fmt.Errorf("register %s has %d cells", c.Name, reg.Len())
		}
		if got := reg.Read(c.Index); got != c.Value.Uint64() {
			r.fail(c.Line, "register %s[%d] is %#x, expected %#x", c.Name, c.Index, got, c.Value)
		}
	}
	return nil
}

func (r *runner) counter(c *command) error {
	ctr, err := r.pl.Counter(c.Name)
	if err != nil {
		return err
	}
	if c.Index >= ctr.Len() {
		return fmt.Errorf("counter %s has %d cells", c.Name, ctr.Len())
	}
	got := ctr.Packets(c.Index)
	if c.Unit == "bytes" {
		got = ctr.Bytes(c.Index)
	}
	if c.Value.Cmp(new(big.Int).SetUint64(got)) != 0 {
		r.fail(c.Line, "counter %s(%d) has %d %s, expected %v", c.Name, c.Index, got, c.Unit, c.Value)
	}
	return nil
}

// plainName is a key's name in a form in which what programs and test files write compares equal.
func plainName(s string) string {
	if i := strings.LastIndexByte(s, '['); i >= 0 && strings.HasSuffix(s, "]") && strings.Contains(s[i:], ":") {
		s = s[:i] + ".slice"
	}
	s = strings.ReplaceAll(s, " ", "")
	s = strings.ReplaceAll(s, ".isValid()", ".$valid$")
	s = strings.ReplaceAll(s, "[", "$")
	return strings.ReplaceAll(s, "]", "")
}

func sameName(full, given string) bool {
	f, g := plainName(full), plainName(given)
	return f == g || strings.HasSuffix(f, "."+g) || strings.HasSuffix(g, "."+f)
}

func (r *runner) add(c *command) error {
	t, err := r.pl.Program().Table(c.Table)
	if err != nil {
		return err
	}
	e := run.Entry{Priority: c.Priority, Keys: make([]run.Match, len(t.Keys))}
	given := make([]bool, len(t.Keys))
	for _, k := range c.Keys {
		at := keyOf(t, k.Name, given)
		if at < 0 || given[at] {
			var names []string
			for _, tk := range t.Keys {
				names = append(names, tk.Name)
			}
			return fmt.Errorf("table %s has no key %q, or has it twice: its keys are %s", t.Name, k.Name, strings.Join(names, ", "))
		}
		given[at] = true
		v, err := value(k.Value)
		if err != nil {
			return fmt.Errorf("key %s: %w", k.Name, err)
		}
		if e.Keys[at], err = v.of(t.Keys[at]); err != nil {
			return fmt.Errorf("table %s: key %s: %w", t.Name, k.Name, err)
		}
	}
	for i, k := range t.Keys {
		if given[i] {
			continue
		}
		if k.Kind == run.Exact {
			return fmt.Errorf("table %s: key %s has no value", t.Name, k.Name)
		}
		e.Keys[i] = run.Match{Value: new(big.Int), Mask: new(big.Int)}
	}
	if e.Action, err = action(t, c); err != nil {
		return err
	}
	return r.pl.AddEntry(t.Name, e)
}

// keyOf is the index of the key that has this name, or else of the first that it may stand for and that is not given; -1: none.
func keyOf(t run.TableInfo, name string, given []bool) int {
	at := -1
	for i, k := range t.Keys {
		if k.Name == name {
			return i
		}
		if sameName(k.Name, name) && at < 0 && !given[i] {
			at = i
		}
	}
	return at
}

// of makes the match of a key of it.
func (m match) of(k run.KeyInfo) (run.Match, error) {
	all := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(k.Width)), big.NewInt(1))
	switch {
	case m.any:
		return run.Match{Value: new(big.Int), Mask: new(big.Int)}, nil
	case m.high != nil:
		return run.Match{Value: m.value, High: m.high}, nil
	case m.prefix >= 0:
		if m.prefix > k.Width {
			return run.Match{}, fmt.Errorf("prefix of %d bits, the key has %d", m.prefix, k.Width)
		}
		rest := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(k.Width-m.prefix)), big.NewInt(1))
		return run.Match{Value: m.value, Mask: new(big.Int).AndNot(all, rest)}, nil
	case m.mask != nil:
		mask := m.mask
		if m.bits > 0 && m.bits < k.Width {
			// Bits without a digit are zero.
			high := new(big.Int).Lsh(big.NewInt(1), uint(m.bits))
			mask = new(big.Int).Or(mask, new(big.Int).AndNot(all, high.Sub(high, big.NewInt(1))))
		}
		return run.Match{Value: m.value, Mask: new(big.Int).And(mask, all)}, nil
	}
	return run.Match{Value: m.value}, nil
}

// action sorts a command's arguments as the action has its parameters.
func action(t run.TableInfo, c *command) (run.Action, error) {
	a := run.Action{Name: c.Action}
	info, err := t.Action(c.Action)
	if err != nil {
		return a, err
	}
	for _, p := range info.Params {
		found := false
		for _, x := range c.Args {
			if x.Name == p.Name {
				v, err := number(x.Value)
				if err != nil {
					return a, err
				}
				a.Args, found = append(a.Args, v), true
				break
			}
		}
		if !found {
			return a, fmt.Errorf("action %s: argument %s missing", info.Name, p.Name)
		}
	}
	if len(c.Args) != len(info.Params) {
		return a, fmt.Errorf("action %s takes %d arguments, %d given", info.Name, len(info.Params), len(c.Args))
	}
	a.Name = info.Name
	return a, nil
}

// compare finds what left and was not expected, and the reverse.
func (r *runner) compare() {
	expected := map[uint16][]*command{}
	var ports []uint16
	for i := range r.s.commands {
		c := &r.s.commands[i]
		if c.Op == "expect" {
			expected[c.Port] = append(expected[c.Port], c)
			ports = append(ports, c.Port)
		}
	}
	for p := range r.sent {
		if !r.s.NamedPorts || r.names(p) {
			ports = append(ports, p)
		}
	}
	slices.Sort(ports)
	for _, p := range slices.Compact(ports) {
		want, got := expected[p], r.sent[p]
		r.result.Expected += len(want)
		if slices.ContainsFunc(want, func(c *command) bool { return c.Any }) {
			continue
		}
		for i := range max(len(want), len(got)) {
			switch {
			case i >= len(got):
				r.fail(want[i].Line, "port %d: expected %s, nothing left", p, show(want[i]))
			case i >= len(want):
				r.fail(got[i].line, "port %d: this packet left as %s, nothing was expected", p, hex.EncodeToString(got[i].data))
			default:
				r.packet(p, want[i], got[i])
			}
		}
	}
}

// names says whether a line names a port.
func (r *runner) names(port uint16) bool {
	return slices.ContainsFunc(r.s.commands, func(c command) bool {
		return (c.Op == "packet" || c.Op == "expect") && c.Port == port
	})
}

func show(c *command) string {
	if c.Exact {
		return c.Digits + "$"
	}
	return c.Digits
}

func (r *runner) packet(port uint16, c *command, s sent) {
	got := hex.EncodeToString(s.data)
	differ := func(what string) {
		r.fail(c.Line, "port %d: %s\n  expected %s\n  got      %s (packet of line %d)", port, what, show(c), got, s.line)
	}
	for i := range c.Digits {
		if i >= len(got) {
			differ(fmt.Sprintf("too short: %d bytes, expected %d", len(s.data), (len(c.Digits)+1)/2))
			return
		}
		if c.Digits[i] != '*' && c.Digits[i] != got[i] {
			differ(fmt.Sprintf("byte %d differs", i/2))
			return
		}
	}
	if c.Exact && len(got) > len(c.Digits) {
		differ(fmt.Sprintf("too long: %d bytes, expected %d", len(s.data), len(c.Digits)/2))
	}
}
