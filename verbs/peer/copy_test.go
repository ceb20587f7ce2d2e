//go:build linux

package peer

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// span is the memory that a request names.
type span struct {
	local, remote uint64
	n             int
}

// recorder is a queue pair, its completion queue and its region: it takes requests, and
// moves nothing.
type recorder struct {
	verbs.QP
	verbs.CQ
	verbs.MR
	verbs.Device
	got   []span
	wrids []uint64
	fail  int // the request that fails, from 1
}

func (*recorder) Num() uint32  { return 7 }
func (*recorder) Name() string { return "recorder" }
func (*recorder) Addr() uint64 { return 1 << 40 }
func (*recorder) LKey() uint32 { return 9 }
func (*recorder) Close() error { return nil }

func (r *recorder) PostSend(wrs []verbs.SendWR) (int, error) {
	for i := range wrs {
		w := &wrs[i]
		l := verbs.SendLimits{Type: ib.RC, Cap: verbs.QPCap{MaxSendSGE: 1}}
		if err := verbs.CheckSend(&l, w); err != nil {
			return i, verbs.Errorf("post_send", "recorder", verbs.ErrInvalid, "%v", err)
		}
		r.got = append(r.got, span{w.SGL[0].Addr, w.RemoteAddr, w.Length()})
		r.wrids = append(r.wrids, w.WRID)
	}
	return len(wrs), nil
}

func (r *recorder) Poll(wc []verbs.WC) (int, error) {
	if len(r.wrids) == 0 {
		return 0, nil
	}
	wc[0] = verbs.WC{WRID: r.wrids[0]}
	if len(r.got) == r.fail {
		wc[0].Status = ib.WCRetryExcErr
	}
	r.wrids = r.wrids[1:]
	return 1, nil
}

// Every byte asked for is copied, once and in order, however many there are. The buffer is
// address space without memory.
func TestCopyOfMoreThanAMessage(t *testing.T) {
	const gib = 1 << 30
	buf, err := unix.Mmap(-1, 0, 9*gib, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		t.Skipf("no address space of 9 GiB: %v", err)
	}
	defer unix.Munmap(buf)
	for _, longest := range []int{0, gib, 1 << 31, 1<<32 - 1} {
		most := ib.MaxMessage
		if longest > 0 {
			most = min(most, longest)
		}
		for _, n := range []int{0, 1, most - 1, most, most + 1, 4*gib - 1, 4 * gib, 4*gib + 8, 8*gib + 1} {
			for op, run := range map[string]func(*Conn) error{
				"write": func(c *Conn) error { return c.Write(t.Context(), 16, 32, n) },
				"read":  func(c *Conn) error { return c.Read(t.Context(), 16, 32, n) },
			} {
				r := &recorder{}
				c := &Conn{Device: r, QP: r, SendCQ: r, MR: r, Buffer: buf, Remote: Remote{Addr: 1 << 50, Length: 9 * gib}, longest: longest}
				if err := run(c); err != nil {
					t.Errorf("%s of %d bytes, messages of %d: %v", op, n, most, err)
				}
				at := 0
				for _, s := range r.got {
					if s.local != 1<<40+16+uint64(at) || s.remote != 1<<50+32+uint64(at) || s.n > most {
						t.Errorf("%s of %d bytes, messages of %d: %+v after %d bytes", op, n, most, s, at)
					}
					at += s.n
				}
				if want := max(1, (n+most-1)/most); at != n || len(r.got) != want {
					t.Errorf("%s of %d bytes, messages of %d: %d bytes in %d requests, want %d", op, n, most, at, len(r.got), want)
				}
			}
		}
	}
	r := &recorder{fail: 2}
	c := &Conn{Device: r, QP: r, SendCQ: r, MR: r, Buffer: buf, Remote: Remote{Length: 9 * gib}}
	if err := c.Write(t.Context(), 0, 0, 8*gib); !errors.Is(err, ib.WCRetryExcErr) || len(r.got) != 2 {
		t.Errorf("the second of four failed: %v after %d requests", err, len(r.got))
	}
}
