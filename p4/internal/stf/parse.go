package stf

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// A Script is a file's commands in order.
type Script struct {
	name     string
	commands []command
	// NamedPorts: a port that no line names does not exist, and what leaves by it is lost, as
	// with the reference compiler's harness. Otherwise such a packet is a failure.
	NamedPorts bool
}

// A command is one line.
type command struct {
	Line int
	Op   string // its first word
	// Port of packet and expect.
	Port uint16
	// Data of packet.
	Data []byte
	// Digits of expect: 0-9, a-f, or *; Exact if $ ends them, Any if there are no
	// digits.
	Digits string
	Exact  bool
	Any    bool
	// Table, Priority, Keys and Action of add and setdefault.
	Table    string
	Priority int
	Keys     []pair
	Action   string
	Args     []pair
	// Name, Index and Value of registers and counters; Unit is packets or bytes.
	Name  string
	Index int
	Value *big.Int
	Unit  string
	// Numbers of mirroring and mc commands.
	Numbers []int
	// Settings of meta.
	Meta []pair
	// Settings of lpf_set and wred_set.
	LowPass   lowPass
	EarlyDrop earlyDrop
}

// A pair is name:value, or name=value.
type pair struct{ Name, Value string }

// maxCommands is how many a file may have. Those that people write have some tens.
const maxCommands = 1 << 16

// Parse reads a file; name is for messages.
func Parse(name string, text []byte) (*Script, error) {
	s := &Script{name: name}
	i := -1
	for line := range strings.Lines(string(text)) {
		i++
		line = strings.TrimSuffix(line, "\n")
		if j := strings.IndexByte(line, '#'); j >= 0 {
			line = line[:j]
		}
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		c := command{Line: i + 1, Op: f[0]}
		if err := c.parse(f[1:], strings.TrimSpace(strings.TrimSpace(line)[len(f[0]):])); err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", name, i+1, f[0], err)
		}
		if len(s.commands) == maxCommands {
			return nil, fmt.Errorf("%s:%d: more than %d commands: divide the file", name, i+1, maxCommands)
		}
		s.commands = append(s.commands, c)
	}
	return s, nil
}

// parse reads what follows the first word: its words, and the text that they are from.
func (c *command) parse(f []string, rest string) error {
	switch c.Op {
	case "packet", "expect":
		return c.frame(f)
	case "add":
		return c.add(rest)
	case "setdefault":
		return c.setDefault(rest)
	case "wait":
	case "remove":
		if rest != "all" {
			return fmt.Errorf("only remove all is known")
		}
	case "mirroring_add", "mirroring_add_mc", "mc_node_associate":
		return c.numbers(f, 2, 2)
	case "mc_mgrp_create":
		return c.numbers(f, 1, 1)
	case "mc_node_create":
		return c.numbers(f, 2, 1024)
	case "register_write", "check_register", "register_reset":
		return c.register(f)
	case "check_counter":
		return c.counter(rest)
	case "lpf_set", "wred_set":
		return c.filter(f)
	case "meta":
		return c.meta(f)
	default:
		return fmt.Errorf("no such command")
	}
	return nil
}

// frame is PORT DIGITS... of packet and expect.
func (c *command) frame(f []string) error {
	if len(f) == 0 {
		return fmt.Errorf("port missing")
	}
	p, err := strconv.ParseUint(f[0], 0, 16)
	if err != nil {
		return fmt.Errorf("port %q is no number from 0 to 65535", f[0])
	}
	c.Port = uint16(p)
	digits := strings.ToLower(strings.Join(f[1:], ""))
	if c.Op == "packet" {
		return c.packet(strings.TrimSuffix(digits, "$"))
	}
	c.Digits, c.Exact = strings.CutSuffix(digits, "$")
	for _, r := range c.Digits {
		if !strings.ContainsRune("0123456789abcdef*", r) {
			return fmt.Errorf("%q is neither a hexadecimal digit nor *", r)
		}
	}
	c.Any = c.Digits == "" && !c.Exact
	return nil
}

func (c *command) setDefault(rest string) error {
	t, a, ok := strings.Cut(rest, " ")
	if !ok {
		return fmt.Errorf("table and action wanted, as in setdefault t drop()")
	}
	c.Table = t
	return c.action(strings.TrimSpace(a))
}

func (c *command) meta(f []string) error {
	if len(f) == 0 {
		return fmt.Errorf("name=value wanted")
	}
	for _, x := range f {
		k, v, ok := strings.Cut(x, "=")
		if !ok {
			return fmt.Errorf("%q is no name=value", x)
		}
		if err := setMeta(new(settings), k, v); err != nil {
			return err
		}
		c.Meta = append(c.Meta, pair{k, v})
	}
	return nil
}

func (c *command) packet(digits string) error {
	if len(digits)%2 != 0 {
		return fmt.Errorf("%d hexadecimal digits make no whole bytes", len(digits))
	}
	c.Data = make([]byte, len(digits)/2)
	for i := range c.Data {
		b, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
		if err != nil {
			return fmt.Errorf("%q is no hexadecimal byte", digits[2*i:2*i+2])
		}
		c.Data[i] = byte(b)
	}
	return nil
}

func (c *command) numbers(f []string, least, most int) error {
	if len(f) < least || len(f) > most {
		return fmt.Errorf("%d numbers wanted, %d given", least, len(f))
	}
	for _, x := range f {
		n, err := strconv.ParseUint(x, 0, 16)
		if err != nil {
			return fmt.Errorf("%q is no number from 0 to 65535", x)
		}
		c.Numbers = append(c.Numbers, int(n))
	}
	return nil
}

// register is NAME of register_reset, NAME INDEX VALUE of the others.
func (c *command) register(f []string) error {
	if c.Op == "register_reset" {
		if len(f) != 1 {
			return fmt.Errorf("name wanted")
		}
		c.Name = f[0]
		return nil
	}
	if len(f) != 3 {
		return fmt.Errorf("name, index and value wanted")
	}
	c.Name = f[0]
	n, err := strconv.ParseUint(f[1], 0, 31)
	if err != nil {
		return fmt.Errorf("index %q is no number", f[1])
	}
	c.Index = int(n)
	v, err := number(f[2])
	if err != nil {
		return err
	}
	if !v.IsUint64() {
		return fmt.Errorf("value %v is not within 64 bits", v)
	}
	c.Value = v
	return nil
}

// filter is NAME INDEX KEY=VALUE...
func (c *command) filter(f []string) error {
	if len(f) < 3 {
		return fmt.Errorf("name, index and settings wanted")
	}
	n, err := strconv.ParseUint(f[1], 0, 31)
	if err != nil {
		return fmt.Errorf("index %q is no number", f[1])
	}
	c.Name, c.Index = f[0], int(n)
	set := c.LowPass.set
	if c.Op == "wred_set" {
		set = c.EarlyDrop.set
	}
	for _, x := range f[2:] {
		k, v, ok := strings.Cut(x, "=")
		if !ok {
			return fmt.Errorf("%q is no name=value", x)
		}
		if err := set(k, v); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	return nil
}

func (c *command) counter(rest string) error {
	left, right, ok := strings.Cut(rest, "==")
	f := strings.Fields(left)
	if !ok || len(f) < 1 || len(f) > 2 {
		return fmt.Errorf("wanted: NAME(INDEX) [packets|bytes] == COUNT")
	}
	name, idx, ok := strings.Cut(strings.TrimSuffix(f[0], ")"), "(")
	if !ok || !strings.HasSuffix(f[0], ")") {
		return fmt.Errorf("%q is no NAME(INDEX)", f[0])
	}
	n, err := strconv.ParseUint(idx, 0, 31)
	if err != nil {
		return fmt.Errorf("index %q is no number", idx)
	}
	c.Name, c.Index, c.Unit = name, int(n), "packets"
	if len(f) == 2 {
		if f[1] != "packets" && f[1] != "bytes" {
			return fmt.Errorf("%q is neither packets nor bytes", f[1])
		}
		c.Unit = f[1]
	}
	c.Value, err = number(strings.TrimSpace(right))
	return err
}

// add is TABLE [PRIORITY] KEY:VALUE... ACTION(...).
func (c *command) add(rest string) error {
	open := strings.IndexByte(rest, '(')
	if open < 0 {
		return fmt.Errorf("action with parentheses wanted at the end, as in drop()")
	}
	// The action's name is the last word before its parenthesis; names of keys have none
	// but in isValid().
	for strings.HasPrefix(rest[open:], "():") {
		next := strings.IndexByte(rest[open+1:], '(')
		if next < 0 {
			return fmt.Errorf("action with parentheses wanted at the end, as in drop()")
		}
		open += 1 + next
	}
	head := strings.Fields(rest[:open])
	if len(head) > 1 && strings.HasSuffix(rest[:open], " ") {
		// a blank before the parenthesis
		rest = strings.TrimRight(rest[:open], " \t") + rest[open:]
	}
	if len(head) < 2 {
		return fmt.Errorf("table and action wanted")
	}
	c.Table = head[0]
	keys := head[1 : len(head)-1]
	if len(keys) > 0 && !strings.Contains(keys[0], ":") {
		p, err := strconv.ParseInt(keys[0], 0, 32)
		if err != nil {
			return fmt.Errorf("%q is neither a priority nor NAME:VALUE", keys[0])
		}
		c.Priority = int(p)
		keys = keys[1:]
	}
	for _, k := range keys {
		at := strings.LastIndexByte(k, ':') // a slice's name has one, too
		if at <= 0 || at == len(k)-1 {
			return fmt.Errorf("%q is no NAME:VALUE", k)
		}
		n, v := k[:at], k[at+1:]
		if _, err := value(v); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
		c.Keys = append(c.Keys, pair{n, v})
	}
	a := rest[strings.LastIndex(rest[:strings.LastIndex(rest, "(")], " ")+1:]
	return c.action(a)
}

func (c *command) action(s string) error {
	name, args, ok := strings.Cut(s, "(")
	args = strings.TrimSpace(args)
	if !ok || !strings.HasSuffix(args, ")") {
		return fmt.Errorf("%q is no ACTION(NAME:VALUE, ...)", s)
	}
	c.Action = strings.TrimSpace(name)
	args = strings.TrimSpace(strings.TrimSuffix(args, ")"))
	if args == "" {
		return nil
	}
	for _, a := range strings.Split(args, ",") {
		n, v, ok := strings.Cut(strings.TrimSpace(a), ":")
		if !ok {
			return fmt.Errorf("%q is no NAME:VALUE", a)
		}
		n, v = strings.TrimSpace(n), strings.TrimSpace(v)
		if _, err := number(v); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
		c.Args = append(c.Args, pair{n, v})
	}
	return nil
}

// number reads 10, 0x1f, 0b11 or 10.0.0.1.
func number(s string) (*big.Int, error) {
	if len(s) > 1024 {
		return nil, fmt.Errorf("a number of %d digits is too long", len(s))
	}
	if strings.Count(s, ".") == 3 {
		v := new(big.Int)
		for _, p := range strings.Split(s, ".") {
			n, err := strconv.ParseUint(p, 10, 8)
			if err != nil {
				return nil, fmt.Errorf("%q is no IPv4 address", s)
			}
			v.Lsh(v, 8).Or(v, new(big.Int).SetUint64(n))
		}
		return v, nil
	}
	base, d := 10, s
	switch {
	case strings.HasPrefix(s, "0x"), strings.HasPrefix(s, "0X"):
		base, d = 16, s[2:]
	case strings.HasPrefix(s, "0b"), strings.HasPrefix(s, "0B"):
		base, d = 2, s[2:]
	}
	v, ok := new(big.Int).SetString(d, base)
	if !ok || v.Sign() < 0 || strings.ContainsAny(d, "_+-") {
		return nil, fmt.Errorf("%q is no number", s)
	}
	return v, nil
}

// match is a value with what is left open: a mask, a prefix's length, or the end of a range.
type match struct {
	value, mask, high *big.Int
	prefix            int  // -1: none
	any               bool // *
	bits              int  // that the digits of a value with wildcards have
}

func value(s string) (match, error) {
	m := match{prefix: -1}
	if s == "*" {
		m.any = true
		return m, nil
	}
	var err error
	for _, sep := range []string{"->", ".."} {
		if lo, hi, ok := strings.Cut(s, sep); ok {
			if m.value, err = number(lo); err != nil {
				return m, err
			}
			m.high, err = number(hi)
			return m, err
		}
	}
	if v, k, ok := strings.Cut(s, "&&&"); ok {
		if m.value, err = number(v); err != nil {
			return m, err
		}
		m.mask, err = number(k)
		return m, err
	}
	if v, n, ok := strings.Cut(s, "/"); ok {
		if m.value, err = number(v); err != nil {
			return m, err
		}
		p, err := strconv.ParseUint(n, 10, 16)
		if err != nil {
			return m, fmt.Errorf("prefix length %q is no number", n)
		}
		m.prefix = int(p)
		return m, nil
	}
	if strings.Contains(s, "*") {
		return wildcards(s)
	}
	m.value, err = number(s)
	return m, err
}

// wildcards reads digits of which * stands for any, as 0x1* or 0b1**.
func wildcards(s string) (match, error) {
	m := match{prefix: -1}
	shift := 0
	switch {
	case strings.HasPrefix(s, "0x"), strings.HasPrefix(s, "0X"):
		shift = 4
	case strings.HasPrefix(s, "0b"), strings.HasPrefix(s, "0B"):
		shift = 1
	default:
		return m, fmt.Errorf("%q: wildcards need 0x or 0b before them", s)
	}
	mask := strings.Map(func(r rune) rune {
		switch {
		case r == '*':
			return '0'
		case shift == 4:
			return 'f'
		}
		return '1'
	}, s[2:])
	var err error
	if m.value, err = number(s[:2] + strings.ReplaceAll(s[2:], "*", "0")); err != nil {
		return m, err
	}
	m.mask, err = number(s[:2] + mask)
	m.bits = shift * len(s[2:])
	return m, err
}

func setMeta(s *settings, name, v string) error {
	switch name {
	case "ingress_time", "enqueue_time", "dequeue_time":
		return s.setTime(name, v)
	}
	n, err := strconv.ParseUint(v, 0, 31)
	if err != nil {
		b, berr := units.ParseBytes(v)
		if berr != nil || b < 0 || !strings.HasSuffix(name, "_bytes") {
			return fmt.Errorf("%s: %q is no number", name, v)
		}
		n = uint64(b)
	}
	return s.setNumber(name, n)
}

func (s *settings) setTime(name, v string) error {
	t, err := units.ParseTime(v)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if t < 0 {
		return fmt.Errorf("%s is negative", name)
	}
	switch name {
	case "ingress_time":
		s.in.IngressTime = t
	case "enqueue_time":
		s.in.EnqueueTime, s.enqueued = t, true
	default:
		s.in.DequeueTime, s.dequeued = t, true
	}
	return nil
}

func (s *settings) setNumber(name string, n uint64) error {
	switch name {
	case "enqueue_bytes":
		s.in.EnqueueDepth.Bytes = units.Bytes(n)
	case "enqueue_packets":
		s.in.EnqueueDepth.Packets = int(n)
	case "dequeue_bytes":
		s.in.DequeueDepth.Bytes = units.Bytes(n)
	case "dequeue_packets":
		s.in.DequeueDepth.Packets = int(n)
	case "queue", "class":
		if n > math.MaxUint8 {
			return fmt.Errorf("%s: %d is not from 0 to 255", name, n)
		}
		if name == "queue" {
			s.in.Queue = uint8(n)
		} else {
			s.in.Class = uint8(n)
		}
	default:
		return fmt.Errorf("no setting %q: there is ingress_time, enqueue_time, dequeue_time, enqueue_bytes, enqueue_packets, dequeue_bytes, dequeue_packets, queue, class", name)
	}
	return nil
}
