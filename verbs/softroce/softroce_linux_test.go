package softroce

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// end is what one end of a connection has made.
type end struct {
	t   testing.TB
	dev verbs.Device
	pd  verbs.PD
	cq  verbs.CQ
	qp  verbs.QP
	me  verbs.Endpoint
}

func openEnd(t testing.TB, name string) *end {
	t.Helper()
	h := &end{t: t}
	var err error
	if h.dev, err = verbs.Open(name); err != nil {
		if errors.Is(err, fs.ErrPermission) {
			t.Skipf("not allowed here: %v", err)
		}
		t.Fatal(err)
	}
	if h.pd, err = h.dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if h.cq, err = h.dev.CreateCQ(verbs.CQInitAttr{CQE: 1 << 12, Timestamps: true}); err != nil {
		t.Fatal(err)
	}
	h.qp = h.newQP()
	gid, err := h.dev.GID(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	h.me = verbs.Endpoint{GID: gid, QPN: h.qp.Num(), PSN: 0xfffff0}
	t.Cleanup(h.close)
	return h
}

func (h *end) newQP() verbs.QP {
	h.t.Helper()
	qp, err := h.pd.CreateQP(verbs.QPInitAttr{
		Type: ib.RC, SendCQ: h.cq, RecvCQ: h.cq,
		Cap: verbs.QPCap{MaxSendWR: 128, MaxRecvWR: 128, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 256},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return qp
}

func (h *end) close() {
	h.t.Helper()
	if err := errors.Join(h.qp.Close(), h.cq.Close(), h.pd.Close(), h.dev.Close()); err != nil {
		h.t.Error(err)
	}
}

func params(mtu ib.MTU) verbs.RCParams {
	p := verbs.DefaultRC()
	p.PathMTU = mtu
	return p
}

func openPair(t testing.TB, a, b string, mtu ib.MTU) (x, y *end) {
	t.Helper()
	x, y = openEnd(t, a), openEnd(t, b)
	if err := verbs.ConnectRC(x.qp, x.me, y.me, params(mtu)); err != nil {
		t.Fatal(err)
	}
	if err := verbs.ConnectRC(y.qp, y.me, x.me, params(mtu)); err != nil {
		t.Fatal(err)
	}
	return x, y
}

const all = ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic

func (h *end) reg(buf []byte) verbs.MR {
	h.t.Helper()
	m, err := h.pd.RegMR(buf, all)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			h.t.Error(err)
		}
	})
	return m
}

// look waits for the device's goroutines to be done with what has come, so that
// the race detector too knows that its memory may be read.
func (h *end) look() *device {
	d := h.dev.(*device)
	d.mu.Lock()
	d.mu.Unlock() //nolint:staticcheck // an empty critical section is the point
	return d
}

// do posts a request and waits for its completion.
func (h *end) do(wr verbs.SendWR) (verbs.WC, error) {
	wr.Flags |= verbs.SendSignaled
	if _, err := h.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		return verbs.WC{}, err
	}
	wc := make([]verbs.WC, 1)
	_, err := verbs.Drain(h.dev, h.cq, wc, 10*time.Second)
	return wc[0], err
}

// Addresses and ports that no other package's tests use, as those may run at the
// same time.
const (
	here  = "soft:127.47.91.1"
	there = "soft:127.47.91.2"
)

var pairs = map[string][2]string{
	"IPv4":          {here, there},
	"IPv6":          {"soft:::1?port=54791", "soft:::1?port=54792"},
	"IPv4 by ports": {here + "?port=54791", here + "?port=54792"},
	"without GSO":   {here + "?gso=off", there + "?gso=off"},
	"packet mode":   {here + "?mode=packet", there + "?mode=packet"},
	"packet to UDP": {here + "?mode=packet", there},
	"UDP to packet": {here, there + "?mode=packet"},
}

func TestReadBack(t *testing.T) {
	for name, p := range pairs {
		for _, mtu := range []ib.MTU{256, 1024, 4096} {
			t.Run(fmt.Sprintf("%s, MTU %d", name, mtu), func(t *testing.T) { readBack(t, p, mtu) })
		}
	}
}

func readBack(t *testing.T, p [2]string, mtu ib.MTU) {
	x, y := openPair(t, p[0], p[1], mtu)
	const n = 3_000_001
	src, dst := make([]byte, n), make([]byte, n)
	for i := range src {
		src[i] = byte(i) ^ byte(i>>8) ^ byte(i>>16)
	}
	want := bytes.Clone(src)
	ms, md := x.reg(src), y.reg(dst)
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
		wc, err := x.do(verbs.SendWR{Opcode: op, SGL: []verbs.SGE{verbs.SGEOf(ms, 0, n)}, RemoteAddr: md.Addr(), RKey: md.RKey()})
		if err != nil {
			t.Fatalf("%v: %v", op, err)
		}
		if wc.ByteLen != n {
			t.Errorf("%v of %d bytes", op, wc.ByteLen)
		}
		y.look()
		if !bytes.Equal(dst, want) {
			t.Fatalf("%v: the peer's bytes differ", op)
		}
		if op == ib.WRRDMARead && !bytes.Equal(src, want) {
			t.Fatal("the bytes read differ")
		}
		clear(src)
	}
	for _, h := range []*end{x, y} {
		d := h.look()
		if n := d.counters.badICRC.Load() + d.counters.malformed.Load() + d.counters.sendErrors.Load(); n > 0 {
			t.Errorf("%s: %d bad ICRCs, %d malformed, %d errors in sending", d.name, d.counters.badICRC.Load(), d.counters.malformed.Load(), d.counters.sendErrors.Load())
		}
		if c := d.core.Counters; c.Malformed+c.NoQP+c.WrongSource > 0 {
			t.Errorf("%s: %+v", d.name, c)
		}
	}
}
