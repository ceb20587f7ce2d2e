//go:build linux

package ucma

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/verbs/softroce"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/guest"
)

// FuzzCommands has a program write anything: commands one after the other, each behind
// the number of its bytes. Answers fit their room, and what the node says of the events
// that it reported is so.
func FuzzCommands(f *testing.F) {
	for _, commands := range [][][]byte{
		{
			body(uint32(cmdCreateID), uint16(24), uint16(4), uint64(1), uint64(responseAt), uint16(roce.PortSpaceTCP), [6]byte{}),
			body(uint32(cmdResolveIP), uint16(64), uint16(0), in6(""), in6("10.0.0.2:5"), uint32(1), uint32(9)),
			body(uint32(cmdGetEvent), uint16(8), uint16(eventBytes), uint64(responseAt)),
			body(uint32(cmdResolveRoute), uint16(8), uint16(0), uint32(1), uint32(9)),
			body(uint32(cmdConnect), uint16(288), uint16(0), param(5, "x"), uint32(1), uint32(0), uint64(0)),
			body(uint32(cmdInitQPAttr), uint16(16), uint16(qpAttrBytes), uint64(responseAt), uint32(1), uint32(1)),
			body(uint32(cmdQuery), uint16(16), uint16(addrBytes), uint64(responseAt), uint32(1), uint32(1)),
			body(uint32(cmdDestroyID), uint16(16), uint16(4), uint64(responseAt), uint32(1), uint32(0)),
		},
		{
			body(uint32(cmdCreateID), uint16(24), uint16(4), uint64(1), uint64(responseAt), uint16(roce.PortSpaceUDP), [6]byte{}),
			body(uint32(cmdBindIP), uint16(40), uint16(0), uint64(responseAt), in6("10.0.0.1:7"), uint32(1)),
			body(uint32(cmdListen), uint16(8), uint16(0), uint32(1), uint32(3)),
			body(uint32(cmdQueryRoute), uint16(16), uint16(routeBytes), uint64(responseAt), uint32(1), uint32(0)),
			body(uint32(cmdSetOption), uint16(24), uint16(0), uint64(0x1000), uint32(1), uint32(0), uint32(optionTOS), uint32(1)),
			body(uint32(cmdReject), uint16(264), uint16(0), uint32(1), make([]byte, 260)),
			body(uint32(cmdAccept), uint16(280), uint16(0), uint64(2), param(5, ""), uint32(1)),
			body(uint32(cmdMigrateID), uint16(16), uint16(4), uint64(responseAt), uint32(1), uint32(3)),
		},
	} {
		var all []byte
		for _, c := range commands {
			all = append(append(all, byte(len(c)), byte(len(c)>>8)), c...)
		}
		f.Add(all)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := softroce.NewWorld(des.New(), 2, softroce.DefaultWorld())
		if err != nil {
			t.Fatal(err)
		}
		h, err := New(Config{Devices: []Device{{Verbs: w.Device(0), NodeGUID: guidA}}, Reach: func(_, _ netip.Addr) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		file, poll, errno := h.Open(&guest.Process{PID: 1, Memory: &memory{0x1000: {1, 0, 0, 0}}})
		if errno != 0 {
			t.Fatal(errno)
		}
		defer poll.Close()
		read := map[uint32]uint32{} // events, by identifier
		for len(data) >= 2 {
			n := min(int(binary.LittleEndian.Uint16(data)), len(data)-2)
			c := data[2 : 2+n]
			data = data[2+n:]
			r := file.Write(c)
			if r.Errno != 0 {
				continue
			}
			if out := int(binary.NativeEndian.Uint16(c[6:])); len(r.Data) > out {
				t.Fatalf("command %x: %d bytes of response", c, len(r.Data))
			}
			switch binary.NativeEndian.Uint32(c) {
			case cmdGetEvent:
				read[u32At(r.Data, 8)]++
			case cmdDestroyID:
				id := u32At(c, headerBytes+8)
				if len(r.Data) == 4 && u32At(r.Data, 0) != read[id] {
					t.Fatalf("%d events reported, the program has read %d", u32At(r.Data, 0), read[id])
				}
			}
		}
		file.Close()
		if len(h.ids)+len(h.bound)+len(h.services)+len(h.devices[0].conns) != 0 {
			t.Fatalf("left: %d identifiers, %d ports, %d services, %d connections", len(h.ids), len(h.bound), len(h.services), len(h.devices[0].conns))
		}
	})
}
