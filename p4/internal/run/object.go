package run

import (
	"fmt"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/types"
	"github.com/sluice-rdma/sluice/units"
)

// maxCells bounds a register, counter or meter array.
const maxCells = 1 << 26

// A Register is an array of values that outlives packets.
type Register struct {
	name  string
	n     int
	width int // bits of a cell that is a number, else 0
	cell  int // words of a cell
	w     []uint64
	first []uint64 // what a cell holds at the beginning; nil is zero
}

// Len is the number of cells.
func (r *Register) Len() int { return r.n }

// Read is the lowest 64 bits of cell i; 0 beyond the end. Of a cell with several fields
// it is the first.
func (r *Register) Read(i int) uint64 {
	if i < 0 || i >= r.n || r.cell == 0 {
		return 0
	}
	return r.w[i*r.cell]
}

// Write sets the first word of cell i to v.
func (r *Register) Write(i int, v uint64) error {
	if i < 0 || i >= r.n {
		return fmt.Errorf("register %s: index %d is not within 0 to %d", r.name, i, r.n-1)
	}
	if r.width > 0 && r.width < 64 && v > mask64(r.width) {
		return fmt.Errorf("register %s: value %#x does not fit %d bits", r.name, v, r.width)
	}
	r.w[i*r.cell] = v
	return nil
}

// load copies cell i to d, zeros beyond the end.
func (r *Register) load(d []uint64, i uint64) {
	if i >= uint64(r.n) {
		clear(d)
		return
	}
	copy(d, r.w[int(i)*r.cell:])
}

// store copies the cell that v begins with to cell i, if there is one.
func (r *Register) store(i uint64, v []uint64) {
	if i < uint64(r.n) {
		copy(r.w[int(i)*r.cell:int(i)*r.cell+r.cell], v)
	}
}

// Reset sets every cell back to its initial value.
func (r *Register) Reset() {
	clear(r.w)
	if r.first != nil {
		for i := range r.n {
			copy(r.w[i*r.cell:], r.first)
		}
	}
}

// A directRegister is a cell of each entry of one table: some of the entry's words, from at on.
type directRegister struct {
	at    int // -1: no table has it
	first []uint64
}

// cell is the cell of the entry whose action runs, nil if there is none.
func (r *directRegister) cell(m *machine) []uint64 {
	if m.cur == nil || r.at < 0 {
		return nil
	}
	return m.cur.registers[r.at : r.at+len(r.first)]
}

// load copies the cell to d, zeros if there is none.
func (r *directRegister) load(m *machine, d []uint64) {
	if copy(d, r.cell(m)) == 0 {
		clear(d)
	}
}

// A Counter counts packets and bytes at each index.
type Counter struct {
	name           string
	packets, bytes []uint64
}

// Len returns the number of cells; a direct counter, whose counts are its table's entries', has none.
func (c *Counter) Len() int { return len(c.packets) }

// Packets returns the number of packets counted at i; 0 beyond the end.
func (c *Counter) Packets(i int) uint64 {
	if i < 0 || i >= len(c.packets) {
		return 0
	}
	return c.packets[i]
}

// Bytes returns the number of bytes counted at i; 0 beyond the end.
func (c *Counter) Bytes(i int) uint64 {
	if i < 0 || i >= len(c.bytes) {
		return 0
	}
	return c.bytes[i]
}

func (c *Counter) count(i, bytes uint64) {
	if i < uint64(len(c.packets)) {
		c.packets[i]++
		c.bytes[i] += bytes
	}
}

// A Rate is a meter's setting: two rates and two bursts (RFC 2698), in bytes, or packets if the meter counts those.
type Rate struct {
	Committed, Peak           float64 // a second
	CommittedBurst, PeakBurst float64
}

// meterState is a two rate three color marker (RFC 2698, color-blind).
type meterState struct {
	rate   *Rate
	last   units.Time
	tc, tp float64 // tokens
}

// Colors, as v1model and Tofino number them: Tofino's red is 3.
const (
	green  = 0
	yellow = 1
	red    = 2
)

// execute takes n tokens at now. A meter without a rate finds every packet green.
func (s *meterState) execute(r *Rate, now units.Time, n float64) uint64 {
	if r == nil {
		return green
	}
	if s.rate != r {
		*s = meterState{rate: r, last: now, tc: r.CommittedBurst, tp: r.PeakBurst}
	}
	if dt := float64(now-s.last) / float64(units.Second); dt > 0 {
		s.tc = min(r.CommittedBurst, s.tc+float64(dt*r.Committed))
		s.tp = min(r.PeakBurst, s.tp+float64(dt*r.Peak))
		s.last = now
	}
	switch {
	case s.tp < n:
		return red
	case s.tc < n:
		s.tp -= n
		return yellow
	}
	s.tp -= n
	s.tc -= n
	return green
}

// A Meter marks packets green, yellow or red by rate.
type Meter struct {
	name    string
	packets bool // it counts packets, not bytes
	cells   []meterState
	rates   []*Rate // of each index, nil: none
	direct  *Rate   // of all entries, for a direct meter
}

// Set gives index i its rates; of a direct meter all of the table's entries, whatever i is.
func (m *Meter) Set(i int, r Rate) error {
	if len(m.cells) == 0 {
		m.direct = &r
		return nil
	}
	if i < 0 || i >= len(m.cells) {
		return fmt.Errorf("meter %s: index %d is not within 0 to %d", m.name, i, len(m.cells)-1)
	}
	m.rates[i] = &r
	return nil
}

func (m *Meter) tokens(bytes int) float64 {
	if m.packets {
		return 1
	}
	return float64(bytes)
}

func (m *Meter) execute(i uint64, now units.Time, bytes int) uint64 {
	if i >= uint64(len(m.cells)) {
		return green
	}
	return m.cells[i].execute(m.rates[i], now, m.tokens(bytes))
}

// A member is an action with its data, of an action profile.
type member struct {
	id     uint32
	action int
	data   []uint64
}

type group struct {
	id      uint32
	members []*member
}

// A profile is an action profile or selector.
type profile struct {
	name    string
	algo    func(*machine, []byte) uint64
	members map[uint32]*member
	groups  map[uint32]*group
}

// sizeArg is a constructor's argument as an array's size.
func (c *compiler) sizeArg(in *ast.Instance, i int) int {
	if i >= len(in.Args) || in.Args[i] == nil || in.Args[i].Kind != ast.IntValue {
		return 0
	}
	v := in.Args[i].Int
	if !v.IsInt64() || v.Sign() < 0 || v.Int64() > maxCells {
		c.failf(ast.At{P: in.At}, "not supported: %s of %v cells: at most %d", in.ControlName, v, maxCells)
	}
	return int(v.Int64())
}

// constArg is a constructor's argument of at most 64 bits.
func (c *compiler) constArg(in *ast.Instance, i int) uint64 {
	if i >= len(in.Args) || in.Args[i] == nil || in.Args[i].Kind != ast.IntValue {
		return 0
	}
	return in.Args[i].Int.Uint64()
}

// newRegister makes an array of n cells of type t.
func (c *compiler) newRegister(in *ast.Instance, t types.Type, n int, first []uint64) objectDef {
	cell := size(t)
	w, ok := scalarWidth(t)
	if !ok {
		w = 0
	}
	if cell*n > maxCells {
		c.failf(ast.At{P: in.At}, "not supported: register %s of %d words: at most %d", in.ControlName, cell*n, maxCells)
	}
	name := in.ControlName
	return objectDef{name: name, make: func() object {
		r := &Register{name: name, n: n, width: w, cell: cell, w: make([]uint64, n*cell), first: first}
		r.Reset()
		return r
	}}
}

func newCounter(name string, n int) objectDef {
	return objectDef{name: name, make: func() object {
		return &Counter{name: name, packets: make([]uint64, n), bytes: make([]uint64, n)}
	}}
}

func newMeter(name string, n int, packets bool) objectDef {
	return objectDef{name: name, make: func() object {
		return &Meter{name: name, packets: packets, cells: make([]meterState, n), rates: make([]*Rate, n)}
	}}
}

// addObject gives an object its index.
func (c *compiler) addObject(d objectDef) int {
	c.prog.objects = append(c.prog.objects, d)
	return len(c.prog.objects) - 1
}
