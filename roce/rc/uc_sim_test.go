package rc_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// ucCase is one transfer over an unreliable connection.
type ucCase struct {
	seed                              uint64
	mtu, messages, maxPackets         int
	depth, recvs, window              int
	drop, duplicate, reorder, corrupt float64
	lateRecv                          bool
	psn                               units.PSN
}

// ucMessage is a message with its bytes, none of which is zero.
type ucMessage struct {
	op   ib.WROpcode
	data []byte
	at   uint64 // WRITE: where it goes
}

const ucMemory = 0x10000 // address of the receiver's memory

// ucTransfer sends messages over a network that drops, doubles, delays and corrupts
// packets: a corrupt one has a wrong ICRC, so it never reaches the queue pair. It
// returns how many messages came, WRITEs without immediate data apart, of how many.
func ucTransfer(c ucCase, fail func(string, ...any)) (came, could int) {
	w := &world{rng: rand.New(rand.NewPCG(c.seed, 11)), fail: fail}
	rq, err := rc.NewRecvQueue(c.recvs)
	if err != nil {
		fail("%v", err)
	}
	make2 := func(recv *rc.RecvQueue, own, peer units.PSN) *rc.QP {
		q, err := rc.New(rc.Config{
			Type: ib.UC, MTU: units.Bytes(c.mtu), SendDepth: c.depth, Recv: recv, RemotePSN: peer, Access: ib.AccessRemoteWrite,
		})
		if err == nil {
			err = q.ReadyToSend(rc.SendConfig{InitialPSN: own, Window: c.window})
		}
		if err != nil {
			fail("%v", err)
		}
		return q
	}
	x, y := make2(nil, c.psn, 0), make2(rq, 0, c.psn)

	var work []ucMessage
	size := uint64(0)
	for i := range c.messages {
		m := ucMessage{op: []ib.WROpcode{ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm}[w.rng.IntN(4)]}
		n := w.rng.IntN(c.mtu*c.maxPackets + 1)
		if w.rng.IntN(4) == 0 {
			n = n / c.mtu * c.mtu
		}
		if m.op == ib.WRSend {
			n = max(n, 8) // room for its number
		}
		m.data = make([]byte, n)
		for j := range m.data {
			m.data[j] = byte(1 + w.rng.IntN(255))
		}
		if m.op == ib.WRSend {
			binary.BigEndian.PutUint64(m.data, uint64(i)|0xff<<56)
		}
		m.at = ucMemory + size
		if m.op == ib.WRRDMAWrite || m.op == ib.WRRDMAWriteWithImm {
			size += uint64(n)
		}
		if m.op != ib.WRRDMAWrite {
			could++
		}
		work = append(work, m)
	}

	// The receiver.
	memory := make([]byte, size)
	buffers := map[uint32][]byte{}
	posted, ended, last := uint64(0), uint64(0), -1
	post := func() {
		for {
			slot, err := rq.Post(rc.Recv{ID: posted, Length: uint32(c.mtu * c.maxPackets)})
			if err != nil {
				return
			}
			buffers[slot] = make([]byte, c.mtu*c.maxPackets)
			posted++
		}
	}
	post()
	received := func(r *rc.RecvCompletion) {
		if r.ID != ended || r.Status != ib.WCSuccess {
			fail("receive %d completes with %v, want %d", r.ID, r.Status, ended)
		}
		ended++
		i := int(r.Imm)
		if !r.HasImm {
			i = int(binary.BigEndian.Uint64(buffers[r.Slot]) &^ (0xff << 56))
		}
		if i <= last || i >= len(work) {
			fail("message %d comes after %d", i, last)
			return
		}
		last = i
		came++
		m := &work[i]
		if m.op.HasImm() != r.HasImm || int(r.Bytes) != len(m.data) || (m.op == ib.WRRDMAWriteWithImm) != (r.Opcode == ib.WCRecvRDMAWithImm) {
			fail("message %d, %v of %d bytes, came as %+v", i, m.op, len(m.data), *r)
			return
		}
		got := buffers[r.Slot]
		if m.op == ib.WRRDMAWriteWithImm {
			got = memory[m.at-ucMemory:]
		}
		if !bytes.Equal(got[:len(m.data)], m.data) {
			fail("message %d is not what was sent", i)
		}
		rq.Free(r.Slot)
		if !c.lateRecv || w.rng.IntN(4) == 0 {
			post()
		}
	}
	var eff rc.Effects
	receive := func(h *rc.Header, data []byte) {
		y.Receive(w.now, h, len(data), &eff)
		if eff.Do&rc.DoCheck != 0 {
			if k := eff.Check; k.RKey != writeKey || k.VA < ucMemory || k.VA-ucMemory+uint64(k.Length) > size {
				fail("check %+v", k)
			}
			y.Checked(w.now, true, &eff)
		}
		if eff.Do&rc.DoPlace != 0 {
			p := &eff.Place
			if int(p.Length) != len(data) {
				fail("place %+v of %d bytes", *p, len(data))
			}
			if p.Kind == rc.PlaceMemory {
				copy(memory[p.VA-ucMemory:][:p.Length], data)
			} else {
				copy(buffers[p.Slot][p.Offset:][:p.Length], data)
			}
		}
		if eff.Do&rc.DoRecv != 0 {
			received(&eff.Recv)
		}
		if eff.Do&^(rc.DoPlace|rc.DoRecv) != 0 || eff.Events != 0 || y.ResponseReady() {
			fail("a packet has effects %+v", eff)
		}
	}

	// The sender: packets leave some time after they were described.
	var d rc.Descriptor
	slots := map[uint32]int{}
	next, completed, under := 0, 0, 0
	lastOut := units.Time(0)
	left := make([]bool, len(work))
	var pump func()
	pump = func() {
		for ; next < len(work); next++ {
			m := &work[next]
			slot, err := x.PostSend(&rc.Request{
				ID: uint64(next), Op: m.op, Signaled: true, Length: uint32(len(m.data)), Imm: uint32(next), RemoteAddr: m.at, RKey: writeKey,
			})
			if err != nil {
				break
			}
			slots[slot] = next
		}
		for x.NextRequest(w.now, &d) {
			if under++; under > c.window || d.Header.AckReq || d.Retransmit || d.Header.Opcode.Service() != ib.ServiceUC {
				fail("packet %+v, %d under way", d, under)
			}
			d, message := d, slots[d.Slot]
			lastOut = max(lastOut, w.now) + units.Time(w.rng.IntN(400))*units.Nanosecond
			w.after(lastOut-w.now, func() {
				data := bytes.Clone(work[message].data[d.Offset:][:d.Payload])
				left[message] = left[message] || d.Last
				under--
				var eff rc.Effects
				x.Sent(&d, &eff)
				var sc rc.SendCompletion
				for x.PollSend(&sc) {
					if sc.ID != uint64(completed) || sc.Status != ib.WCSuccess || !left[completed] {
						fail("request %d completes with %v; %d is next, has left: %v", sc.ID, sc.Status, completed, left[completed])
					}
					completed++
				}
				if x.Deadline() != units.Never || x.Inflight() < 0 {
					fail("deadline %v, %v in flight", x.Deadline(), x.Inflight())
				}
				pump()
				if w.rng.Float64() < c.drop || w.rng.Float64() < c.corrupt {
					return
				}
				copies := 1
				if w.rng.Float64() < c.duplicate {
					copies = 2
				}
				for i := range copies {
					delay := units.Microsecond
					if i > 0 || w.rng.Float64() < c.reorder {
						delay += units.Time(w.rng.IntN(20_000)) * units.Nanosecond
					}
					w.after(delay, func() { receive(&d.Header, data) })
				}
			})
		}
	}
	pump()
	w.run(units.Never)
	if completed != len(work) || x.SendQueued() != 0 || x.Inflight() != 0 {
		fail("%d of %d requests completed, %v in flight", completed, len(work), x.Inflight())
	}
	// Memory holds what its message put there, or nothing.
	for i, m := range work {
		if m.op != ib.WRRDMAWrite && m.op != ib.WRRDMAWriteWithImm {
			continue
		}
		for j, b := range memory[m.at-ucMemory:][:len(m.data)] {
			if b != 0 && b != m.data[j] {
				fail("byte %d of WRITE %d is wrong", j, i)
				break
			}
		}
	}
	return came, could
}

func drawUC(t *rapid.T, perfect bool) ucCase {
	c := ucCase{
		seed:     rapid.Uint64().Draw(t, "seed"),
		mtu:      rapid.SampledFrom([]int{64, 100, 256, 1024}).Draw(t, "mtu"),
		messages: rapid.IntRange(1, 40).Draw(t, "messages"), maxPackets: rapid.IntRange(1, 9).Draw(t, "maxPackets"),
		depth: rapid.IntRange(1, 20).Draw(t, "depth"), recvs: rapid.IntRange(1, 20).Draw(t, "recvs"),
		window: rapid.IntRange(1, 30).Draw(t, "window"),
		psn:    units.PSN(rapid.SampledFrom([]uint32{0, 5, 0xfffffe, 0x7fffff, 0x800000}).Draw(t, "psn")),
	}
	if !perfect {
		p := rapid.SampledFrom([]float64{0, 0.01, 0.1, 0.4})
		c.drop, c.duplicate = p.Draw(t, "drop"), p.Draw(t, "duplicate")
		c.reorder, c.corrupt = p.Draw(t, "reorder"), p.Draw(t, "corrupt")
		c.lateRecv = rapid.Bool().Draw(t, "lateRecv")
	}
	return c
}

// Whatever the network does, what comes of an unreliable connection are messages
// that were sent, each whole and as it was, in order and none twice; and every
// request completes as its last packet leaves.
func TestUnreliableDelivery(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { ucTransfer(drawUC(t, false), t.Fatalf) })
}

// On a perfect wire everything comes.
func TestUnreliableOnAPerfectWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if came, could := ucTransfer(drawUC(t, true), t.Fatalf); came != could {
			t.Fatalf("%d of %d messages came", came, could)
		}
	})
}

// A wire with faults still carries most of what it should: a message of n packets
// comes when none of them met a fault, and neither did the last before it.
func TestUnreliableGoesOn(t *testing.T) {
	for _, fault := range []string{"drop", "duplicate", "reorder", "corrupt"} {
		t.Run(fault, func(t *testing.T) {
			c := ucCase{seed: 3, mtu: 256, messages: 4000, maxPackets: 4, depth: 16, recvs: 16, window: 16}
			*map[string]*float64{"drop": &c.drop, "duplicate": &c.duplicate, "reorder": &c.reorder, "corrupt": &c.corrupt}[fault] = 0.01
			came, could := ucTransfer(c, t.Fatalf)
			least := 0.8
			if fault == "duplicate" {
				least = 1
			}
			if share := float64(came) / float64(could); share < least || fault != "duplicate" && share == 1 {
				t.Errorf("%d of %d messages came", came, could)
			}
		})
	}
}
