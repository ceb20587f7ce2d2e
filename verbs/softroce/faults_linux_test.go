package softroce

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// poorWire stands between the endpoint and the sockets. Of a hundred packets it
// drops one, sends one twice, keeps one back until some later ones have left, and
// changes a bit of one, whose ICRC then is wrong.
type poorWire struct {
	*udpWire
	rng  *rand.Rand
	n    int // messages prepared
	gid  int // of the socket that they are for
	buf  [batchMessages][]byte
	held []held

	packets, dropped, doubled, late, changed int
}

type held struct {
	m    message
	data []byte
	wait int // the number of packets that it waits for
}

func (w *poorWire) segments() int { return 1 }

func (w *poorWire) send(b *batch) {
	for i := range b.messages {
		m := &b.messages[i]
		data := b.buf[m.at : m.at+m.n]
		w.paths.get(w.sockets[m.route.GID].local, m.route.Dst).PutICRC(data, 0)
		w.carry(m, data)
	}
	w.flush()
}

func (w *poorWire) carry(m *message, data []byte) {
	w.packets++
	hit := func() bool { return w.rng.IntN(100) == 0 }
	switch {
	case hit():
		w.dropped++
	case hit():
		w.late++
		w.held = append(w.held, held{*m, bytes.Clone(data), 1 + w.rng.IntN(20)})
	default:
		if hit() {
			w.changed++
			data[w.rng.IntN(len(data))] ^= 1 << w.rng.IntN(8)
		}
		w.put(m, data)
		if hit() {
			w.doubled++
			w.put(m, data)
		}
	}
	kept := w.held[:0]
	for _, h := range w.held {
		if h.wait--; h.wait > 0 {
			kept = append(kept, h)
			continue
		}
		w.put(&h.m, h.data)
	}
	w.held = kept
}

// put makes data the next message of a system call.
func (w *poorWire) put(m *message, data []byte) {
	if w.n == batchMessages || w.n > 0 && w.gid != m.route.GID {
		w.flush()
	}
	w.gid = m.route.GID
	w.buf[w.n] = append(w.buf[w.n][:0], data...)
	w.prepare(w.n, m, w.buf[w.n])
	w.n++
}

func (w *poorWire) flush() {
	if w.n > 0 {
		transmit(w.sockets[w.gid].fd, w.headers[:w.n], &w.waiter, w.counters, func(int, unix.Errno) {})
		w.n = 0
	}
}

func (h *end) makePoor(seed uint64) *poorWire {
	d := h.dev.(*device)
	d.mu.Lock()
	defer d.mu.Unlock()
	w := &poorWire{udpWire: d.wire.(*udpWire), rng: rand.New(rand.NewPCG(seed, 2))}
	for i := range w.buf {
		w.buf[i] = make([]byte, 0, endpoint.MaxPacket)
	}
	d.out = w
	return w
}

// number returns the value of an environment variable, or what to take without one.
func number(t *testing.T, name string, without int) int {
	s := os.Getenv(name)
	if s == "" {
		return without
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: give a positive number", name, s)
	}
	return n
}

// TestFileOverAPoorLoopback writes a file to another device and reads it back, over
// real sockets and real timers, through faults. By default it is 4 MiB for 2 seeds;
// SLUICE_FILE_BYTES and SLUICE_FILE_SEEDS say otherwise. It goes by IPv6, over which a UDP
// socket hides nothing that the ICRC covers: over IPv4 one changed packet of
// 65,536 gets through.
func TestFileOverAPoorLoopback(t *testing.T) {
	size := number(t, "SLUICE_FILE_BYTES", 4<<20)
	for seed := range number(t, "SLUICE_FILE_SEEDS", 2) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { filePoorly(t, uint64(seed), size) })
	}
}

func filePoorly(t *testing.T, seed uint64, size int) {
	x, y := openEnd(t, pairs["IPv6"][0]), openEnd(t, pairs["IPv6"][1])
	ch, err := x.dev.CreateCompChannel()
	if err != nil {
		t.Fatal(err)
	}
	cq, err := x.dev.CreateCQ(verbs.CQInitAttr{CQE: 64, Channel: ch})
	if err != nil {
		t.Fatal(err)
	}
	qp, err := x.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(qp.Close(), cq.Close(), ch.Close()); err != nil {
			t.Error(err)
		}
	})
	me := verbs.Endpoint{GID: x.me.GID, QPN: qp.Num(), PSN: 0xfffff0}
	p := params(4096)
	p.Timeout = 14 // 67 ms, so that on a busy machine all eight do not pass while one end has no processor
	if err := errors.Join(verbs.ConnectRC(qp, me, y.me, p), verbs.ConnectRC(y.qp, y.me, me, p)); err != nil {
		t.Fatal(err)
	}
	there, back := x.makePoor(seed), y.makePoor(seed+1<<32)
	file, remote := make([]byte, size), make([]byte, size)
	r := rand.New(rand.NewPCG(seed, 9))
	for i := 0; i+8 <= size; i += 8 {
		binary.LittleEndian.PutUint64(file[i:], r.Uint64())
	}
	want := checksum(file)
	mf, mr := x.reg(file), y.reg(remote)
	start := time.Now()
	const message = 1 << 20
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
		requests := (size + message - 1) / message
		times := make([]int, requests) // that each was completed
		wc := make([]verbs.WC, 16)
		for posted, done := 0, 0; done < requests; {
			for posted < requests && posted-done < 16 {
				at := posted * message
				n := min(message, size-at)
				if _, err := qp.PostSend([]verbs.SendWR{{
					WRID: uint64(posted), Opcode: op, Flags: verbs.SendSignaled,
					SGL: []verbs.SGE{verbs.SGEOf(mf, at, n)}, RemoteAddr: mr.Addr() + uint64(at), RKey: mr.RKey(),
				}}); err != nil {
					t.Fatal(err)
				}
				posted++
			}
			n, err := sleepyPoll(cq, ch, wc)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range wc[:n] {
				if c.Status != ib.WCSuccess || c.Opcode != op.Completion() {
					t.Fatalf("%v %d: %v", op, c.WRID, c.Status)
				}
				times[c.WRID]++
			}
			done += n
		}
		x.look()
		y.look()
		for id, n := range times {
			if n != 1 {
				t.Errorf("%v %d was completed %d times", op, id, n)
			}
		}
		if checksum(remote) != want {
			t.Fatalf("%v: the other end's file differs", op)
		}
		if op == ib.WRRDMAWrite {
			clear(file)
		}
	}
	if checksum(file) != want {
		t.Fatal("the file read back differs")
	}
	took := time.Since(start)
	count := x.dev.(*device).Counters()
	wrong := x.look().counters.badICRC.Load() + y.look().counters.badICRC.Load()
	for _, w := range []*poorWire{there, back} {
		// Of as many packets some must have met each fault, or there are none.
		if w.packets > 3000 && (w.dropped == 0 || w.doubled == 0 || w.late == 0 || w.changed == 0) {
			t.Errorf("the wire was not poor: %d packets, %d dropped, %d doubled, %d late, %d changed", w.packets, w.dropped, w.doubled, w.late, w.changed)
		}
	}
	// The connections are all that the device has had.
	if r := qp.(verbs.RepairsQP).Repairs(); r.Retransmitted != count["retransmitted_pkts"] || r.Timeouts != count["local_ack_timeout_err"] ||
		r.SequenceErrors != count["packet_seq_err"]+count["implied_nak_seq_err"] || r.RNRNAKs != count["rnr_nak_retry_err"] {
		t.Errorf("the queue pair repaired %+v, the device counted %v", r, count)
	}
	if r := qp.(verbs.RepairsQP).Repairs(); there.packets > 3000 && (r.Retransmitted == 0 || r.SequenceErrors == 0) {
		t.Errorf("the queue pair repaired %+v on a poor wire", r)
	}
	if wrong == 0 && there.changed+back.changed > 100 {
		t.Errorf("%d packets were changed, and none had a wrong ICRC", there.changed+back.changed)
	}
	t.Logf("%d bytes there and back in %.1f s: %d packets there and %d back; %d dropped, %d doubled, %d late, %d changed; %d wrong ICRCs, %d packets sent again, %d timeouts",
		size, took.Seconds(), there.packets, back.packets, there.dropped+back.dropped, there.doubled+back.doubled, there.late+back.late,
		there.changed+back.changed, wrong, count["retransmitted_pkts"], count["local_ack_timeout_err"])
}

// sleepyPoll waits for completions without taking the processor meanwhile.
func sleepyPoll(cq verbs.CQ, ch verbs.CompChannel, wc []verbs.WC) (int, error) {
	for {
		if err := cq.ReqNotify(false); err != nil {
			return 0, err
		}
		if n, err := cq.Poll(wc); n > 0 || err != nil {
			return n, err
		}
		if _, err := ch.Wait(context.Background(), time.Minute); err != nil {
			return 0, err
		}
	}
}

// checksum tells files apart that differ in any 8 bytes, with near certainty.
func checksum(b []byte) (s uint64) {
	for ; len(b) >= 8; b = b[8:] {
		s = (s ^ binary.LittleEndian.Uint64(b)) * 0x9e3779b97f4a7c15
	}
	for _, c := range b {
		s = (s ^ uint64(c)) * 0x9e3779b97f4a7c15
	}
	return s
}
