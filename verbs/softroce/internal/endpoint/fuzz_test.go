package endpoint

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// FuzzReceive gives a device packets of anybody's making, with good ICRCs. It must
// not panic, must touch no memory but what the keys in force allow, and must give
// each request exactly one completion at most.
//
// The input is packets one after the other: a byte of what to mend (see below),
// two of length, and the packet.
func FuzzReceive(f *testing.F) {
	const (
		toConnection = 1 << iota // set the destination to the connected queue pair
		toDatagrams              // or to that for datagrams; with both to the unreliable connection
		expected                 // set the PSN to the one that fits
		goodKey                  // set key and address to those of the writable region
		fromPeer                 // the source is the peer
		after                    // let time pass
	)
	add := func(mend byte, ps ...roce.Packet) {
		var in []byte
		for _, p := range ps {
			var b [400]byte
			n := p.Put(b[:])
			if roce.HasPayload(p.Opcode) {
				n += min(int(p.DMALen), 256) &^ 3
			}
			n += roce.ICRCBytes
			in = append(in, mend, byte(n>>8), byte(n))
			in = append(in, b[:n]...)
		}
		f.Add(in)
	}
	const usual = toConnection | expected | goodKey | fromPeer
	pk := func(op ib.Opcode, n uint32) roce.Packet {
		return roce.Packet{Header: rc.Header{Opcode: op, DMALen: n, AckReq: true}, PKey: roce.DefaultPKey}
	}
	for op := ib.Opcode(0); op < 32; op++ {
		add(usual, pk(op, 0), pk(op, 64))
		add(usual&^expected, pk(op, 64))
	}
	add(usual, pk(ib.WriteFirst, 100), pk(ib.WriteMiddle, 0), pk(ib.SendLast, 4))
	add(usual, pk(ib.ReadRequest, 1<<31), pk(ib.ReadRequest, 100))
	for op := ib.ServiceUC; op < ib.ServiceUC+12; op++ {
		add(usual|toDatagrams, pk(op, 0), pk(op, 256))
		add(usual|toDatagrams, pk(ib.ServiceUC|ib.SendFirst, 256), pk(op, 64))
		add(usual|toDatagrams, pk(ib.ServiceUC|ib.WriteFirst, 300), pk(op, 44))
	}
	ud := pk(ib.ServiceUD|ib.SendOnly, 64)
	ud.QKey = testQKey
	add(toDatagrams, ud, ud)
	add(fromPeer|toConnection, roce.CNP(0, roce.DefaultPKey))
	add(0, roce.GSI(0, roce.DefaultPKey))

	f.Fuzz(func(t *testing.T, in []byte) {
		w := newWorld(t, 1, 2)
		a, b := w.hosts[0], w.hosts[1]
		x, y := w.newQP(a, ib.RC, nil), w.newQP(b, ib.RC, nil)
		w.connect(x, y, a, b, patient(256), 0)
		dg := w.newUD(a, testQKey)
		uc, ucPeer := w.newQP(a, ib.UC, nil), w.newQP(b, ib.UC, nil)
		w.connectUC(uc, ucPeer, a, b, 256)
		// Memory with walls: only the middle may change.
		const wall, room = 512, 1024
		arena := bytes.Repeat([]byte{0xa5}, 4*wall+3*room)
		piece := func(i int, access ib.AccessFlags) *MR {
			at := wall + i*(wall+room)
			m, err := a.pd.RegMR(arena[at:at+room], access)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		open, recv := piece(0, allAccess), piece(2, ib.AccessLocalWrite)
		piece(1, ib.AccessRemoteRead)
		for i := range uint64(8) {
			a.recv(x, verbs.RecvWR{WRID: 100 + i, SGL: sge(recv, 0, room)})
			a.recv(dg, verbs.RecvWR{WRID: 200 + i, SGL: sge(recv, 0, room)})
			a.recv(uc, verbs.RecvWR{WRID: 300 + i, SGL: sge(recv, 0, room)})
		}
		a.post(x, verbs.SendWR{WRID: 1, Opcode: ib.WRRDMARead, Flags: verbs.SendSignaled, SGL: sge(open, 0, room), RemoteAddr: 4096, RKey: 1})
		a.post(x, verbs.SendWR{WRID: 2, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: sge(open, 0, room), RemoteAddr: 4096, RKey: 1})

		next, nextUC := x.rcExpected(), uc.rcExpected()
		for len(in) >= 3 {
			mend, n := in[0], int(in[1])<<8|int(in[2])
			in = in[3:]
			p := bytes.Clone(in[:min(n, len(in))])
			in = in[len(p):]
			if len(p) >= roce.BTHBytes {
				unreliable := mend&toConnection != 0 && mend&toDatagrams != 0
				if unreliable {
					binary.BigEndian.PutUint32(p[4:], uc.Num()|uint32(p[4])<<24)
				} else if mend&toConnection != 0 {
					binary.BigEndian.PutUint32(p[4:], x.Num()|uint32(p[4])<<24)
				} else if mend&toDatagrams != 0 {
					binary.BigEndian.PutUint32(p[4:], dg.Num()|uint32(p[4])<<24)
				}
				if mend&expected != 0 && unreliable {
					binary.BigEndian.PutUint32(p[8:], uint32(nextUC)|uint32(p[8])<<24)
					nextUC = nextUC.Add(1)
				} else if mend&expected != 0 {
					binary.BigEndian.PutUint32(p[8:], uint32(next)|uint32(p[8])<<24)
					next = next.Add(1)
				}
				if op := ib.Opcode(p[0]); mend&goodKey != 0 && len(p) >= roce.BTHBytes+12 && op.Operation() == op&^ib.ServiceUC {
					binary.BigEndian.PutUint64(p[roce.BTHBytes:], open.Addr())
					binary.BigEndian.PutUint32(p[roce.BTHBytes+8:], open.Key())
				}
			}
			if mend&after != 0 {
				w.now += 100 * units.Microsecond
			}
			src := b.addr
			if mend&fromPeer == 0 {
				src = w.hosts[0].addr
			}
			a.e.Receive(w.now, &Packet{Data: p, Src: src, HopLimit: 64, TrafficClass: mend >> 6})
			var buf [MaxPacket]byte
			for i := 0; ; i++ {
				if n, _ := a.e.Next(w.now, buf[:]); n == 0 {
					break
				}
				if i > 1<<16 {
					t.Fatal("there is no end of packets to send")
				}
			}
		}
		for w.now < units.Second && a.e.Deadline() != units.Never {
			w.now = max(w.now, a.e.Deadline())
			a.e.Expire(w.now)
			var buf [MaxPacket]byte
			for n := 1; n > 0; {
				n, _ = a.e.Next(w.now, buf[:])
			}
		}
		for i, v := range arena {
			at := i % (wall + room)
			third := i / (wall + room)
			if v != 0xa5 && (at < wall || third == 1) {
				t.Fatalf("byte %d was touched", i)
			}
		}
		seen := map[uint64]int{}
		for _, c := range a.poll() {
			if seen[c.WRID]++; seen[c.WRID] > 1 {
				t.Fatalf("request %d completed twice", c.WRID)
			}
		}
	})
}
