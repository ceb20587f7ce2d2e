package verbs_test

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

type handle struct{}

func (handle) Close() error { return nil }

func limitsOf(kind ib.QPType) *verbs.SendLimits {
	return &verbs.SendLimits{Type: kind, Cap: verbs.QPCap{MaxSendSGE: 2, MaxInlineData: 32}, Datagram: 1024}
}

// TestSendOpcodes has the operations of each service from the table in ibv_post_send(3), but
// for SEND with invalidate, which IBA 9.2.1 gives to reliable services only.
func TestSendOpcodes(t *testing.T) {
	rows := map[ib.WROpcode]string{
		ib.WRSend: "RC UC UD", ib.WRSendWithImm: "RC UC UD", ib.WRSendWithInv: "RC",
		ib.WRRDMAWrite: "RC UC", ib.WRRDMAWriteWithImm: "RC UC", ib.WRRDMARead: "RC",
		ib.WRAtomicCmpAndSwp: "RC", ib.WRAtomicFetchAndAdd: "RC", ib.WRLocalInv: "RC UC", ib.WRBindMW: "RC UC",
	}
	for op := range 256 {
		op := ib.WROpcode(op)
		for kind := range ib.QPType(16) {
			wr := verbs.SendWR{Opcode: op}
			if op.IsAtomic() {
				wr.SGL = []verbs.SGE{{Length: 8}}
			}
			if kind == ib.UD {
				wr.AH = handle{}
			}
			want := strings.Contains(rows[op], kind.String())
			if err := verbs.CheckSend(limitsOf(kind), &wr); (err == nil) != want {
				t.Errorf("%v on %v: error %v", op, kind, err)
			}
		}
	}
}

func TestCheckSend(t *testing.T) {
	data := func(n ...uint32) (sgl []verbs.SGE) {
		for _, n := range n {
			sgl = append(sgl, verbs.SGE{Length: n})
		}
		return sgl
	}
	short := func(l *verbs.SendLimits) { l.Message = 16 }
	for name, c := range map[string]struct {
		kind   ib.QPType
		change func(*verbs.SendLimits)
		wr     verbs.SendWR
		want   string // part of the error; empty for none
	}{
		"no data":               {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRRDMAWrite}},
		"all SGEs":              {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRSend, SGL: data(1, 2)}},
		"an SGE too many":       {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRSend, SGL: data(1, 2, 0)}, want: "3 SGEs: the queue pair was made for 2"},
		"one SGE is always":     {kind: ib.RC, change: func(l *verbs.SendLimits) { l.Cap.MaxSendSGE = 0 }, wr: verbs.SendWR{Opcode: ib.WRSend, SGL: data(1)}},
		"and never two":         {kind: ib.RC, change: func(l *verbs.SendLimits) { l.Cap.MaxSendSGE = 0 }, wr: verbs.SendWR{Opcode: ib.WRSend, SGL: data(1, 1)}, want: "made for 1"},
		"the longest message":   {kind: ib.UC, wr: verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: data(1<<31-1, 1)}},
		"a byte longer":         {kind: ib.UC, wr: verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: data(1<<31, 1)}, want: "a message of 2147483649 bytes: at most 2147483648"},
		"two of 4 GiB":          {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRRDMARead, SGL: data(1<<32-1, 1<<32-1)}, want: "at most 2147483648"},
		"the port's longest":    {kind: ib.RC, change: short, wr: verbs.SendWR{Opcode: ib.WRRDMARead, SGL: data(15, 1)}},
		"a byte above it":       {kind: ib.RC, change: short, wr: verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: data(16, 1)}, want: "a message of 17 bytes: at most 16"},
		"as long inline":        {kind: ib.RC, change: short, wr: verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: make([]byte, 16)}},
		"a byte above inline":   {kind: ib.RC, change: short, wr: verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: make([]byte, 17)}, want: "a message of 17 bytes: at most 16"},
		"inline":                {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: make([]byte, 32)}},
		"a byte too much":       {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: make([]byte, 33)}, want: "33 bytes inline: the queue pair was made for 32"},
		"inline leaves SGLs":    {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendInline, SGL: data(1, 1, 1)}},
		"inline READ":           {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRRDMARead, Flags: verbs.SendInline}, want: "RDMA_READ can't be inline"},
		"inline atomic":         {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRAtomicCmpAndSwp, Flags: verbs.SendInline, Inline: make([]byte, 8)}, want: "can't be inline"},
		"inline invalidate":     {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRLocalInv, Flags: verbs.SendInline}, want: "can't be inline"},
		"a READ without credit": {kind: ib.RC, change: func(l *verbs.SendLimits) { l.NoReads = true }, wr: verbs.SendWR{Opcode: ib.WRRDMARead}, want: "RDMA_READ on a queue pair connected with MaxRdAtomic 0"},
		"a WRITE needs none":    {kind: ib.RC, change: func(l *verbs.SendLimits) { l.NoReads = true }, wr: verbs.SendWR{Opcode: ib.WRRDMAWrite}},
		"an atomic in pieces":   {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, RemoteAddr: 64, SGL: data(3, 5)}},
		"a short atomic":        {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, SGL: data(7)}, want: "returns 8 bytes, and the request has room for 7"},
		"a misaligned atomic":   {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, RemoteAddr: 0x44, SGL: data(8)}, want: "an atomic at 0x44: the remote address must be a multiple of 8"},
		"a handle":              {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRSend, AH: handle{}}, want: "leave AH nil"},
		"a handle to read":      {kind: ib.RC, wr: verbs.SendWR{Opcode: ib.WRRDMARead, AH: handle{}}, want: "leave AH nil"},
		"the longest datagram":  {kind: ib.UD, wr: verbs.SendWR{Opcode: ib.WRSend, AH: handle{}, RemoteQPN: 1<<24 - 1, SGL: data(1000, 24)}},
		"above the MTU":         {kind: ib.UD, wr: verbs.SendWR{Opcode: ib.WRSend, AH: handle{}, SGL: data(1000, 25)}, want: "a datagram of 1025 bytes: the port's MTU is 1024"},
		"no handle":             {kind: ib.UD, wr: verbs.SendWR{Opcode: ib.WRSend}, want: "set AH"},
		"25 bits":               {kind: ib.UD, wr: verbs.SendWR{Opcode: ib.WRSend, AH: handle{}, RemoteQPN: 1 << 24}, want: "0x1000000: a number has 24 bits"},
	} {
		l := limitsOf(c.kind)
		if c.change != nil {
			c.change(l)
		}
		err := verbs.CheckSend(l, &c.wr)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestCheckSendAllocs(t *testing.T) {
	l := limitsOf(ib.RC)
	wr := verbs.SendWR{Opcode: ib.WRAtomicFetchAndAdd, SGL: []verbs.SGE{{Length: 4}, {Length: 4}}}
	if n := testing.AllocsPerRun(100, func() {
		if err := verbs.CheckSend(l, &wr); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCheckSend(b *testing.B) {
	l := limitsOf(ib.RC)
	wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{{Length: 4096}}}
	for b.Loop() {
		if err := verbs.CheckSend(l, &wr); err != nil {
			b.Fatal(err)
		}
	}
}
