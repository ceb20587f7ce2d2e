package roce

import (
	"net/netip"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// Generators of what the properties are about.

var knownOpcodes = func() (ops []ib.Opcode) {
	for op := range 256 {
		if HeaderBytes(ib.Opcode(op)) > 0 {
			ops = append(ops, ib.Opcode(op))
		}
	}
	return ops
}()

func genBytes(t *rapid.T, minLen, maxLen int) []byte {
	return rapid.SliceOfN(rapid.Byte(), minLen, maxLen).Draw(t, "bytes")
}

func genAddr(t *rapid.T, v6 bool) netip.Addr {
	if v6 {
		return netip.AddrFrom16([16]byte(genBytes(t, 16, 16)))
	}
	return netip.AddrFrom4([4]byte(genBytes(t, 4, 4)))
}

func genU24(t *rapid.T, label string) uint32 { return rapid.Uint32Range(0, 1<<24-1).Draw(t, label) }

// genPacket returns a packet with every field set that its opcode has, and its
// payload.
func genPacket(t *rapid.T) (Packet, []byte) {
	op := rapid.SampledFrom(knownOpcodes).Draw(t, "opcode")
	p := Packet{
		Header: rc.Header{
			Opcode: op, AckReq: rapid.Bool().Draw(t, "A"), Solicited: rapid.Bool().Draw(t, "SE"),
			PSN: units.MakePSN(genU24(t, "PSN")),
		},
		DestQP: genU24(t, "destQP"), PKey: rapid.Uint16().Draw(t, "P_Key"),
		FECN: rapid.Bool().Draw(t, "FECN"), BECN: rapid.Bool().Draw(t, "BECN"), Migrated: rapid.Bool().Draw(t, "M"),
		Reserved6: rapid.Uint8Range(0, 63).Draw(t, "reserved"),
	}
	has := forms[op].layout
	if has&hasRETH != 0 {
		p.DMALen = rapid.Uint32().Draw(t, "length")
	}
	if has&(hasRETH|hasAtomic) != 0 {
		p.VA, p.RKey = rapid.Uint64().Draw(t, "VA"), rapid.Uint32().Draw(t, "R_Key")
	}
	if has&hasAtomic != 0 {
		p.Swap, p.Compare = rapid.Uint64().Draw(t, "swap"), rapid.Uint64().Draw(t, "compare")
	}
	if has&hasAETH != 0 {
		p.Syndrome, p.MSN = rapid.Uint8().Draw(t, "syndrome"), genU24(t, "MSN")
	}
	if has&hasAtomicAck != 0 {
		p.Orig = rapid.Uint64().Draw(t, "orig")
	}
	if has&hasImm != 0 {
		p.Imm = rapid.Uint32().Draw(t, "imm")
	}
	if has&hasDETH != 0 {
		p.QKey, p.SrcQP = rapid.Uint32().Draw(t, "Q_Key"), genU24(t, "srcQP")
	}
	var payload []byte
	if HasPayload(op) {
		payload = genBytes(t, 0, 70)
		p.Pad = Pad(len(payload))
	}
	return p, payload
}

// encode writes BTH to ICRC with room for the ICRC.
func encode(p *Packet, payload []byte) []byte {
	b := make([]byte, MaxHeaderBytes+len(payload)+3+ICRCBytes)
	n := p.Put(b)
	n += copy(b[n:], payload)
	n += PutPad(b[n:], p.Pad)
	return b[:n+ICRCBytes]
}

// genIP returns a whole packet from the IP header to a right ICRC, with
// arbitrary values in what the ICRC does not cover.
func genIP(t *rapid.T) []byte {
	p, payload := genPacket(t)
	body := encode(&p, payload)
	return wrap(t, body)
}

func wrap(t *rapid.T, body []byte) []byte {
	v6 := rapid.Bool().Draw(t, "v6")
	src, dst := genAddr(t, v6), genAddr(t, v6)
	b := make([]byte, IPv6Bytes+UDPBytes+len(body))
	n := 0
	if v6 {
		n = (&IPv6Fields{
			TrafficClass: rapid.Uint8().Draw(t, "class"), FlowLabel: rapid.Uint32Range(0, 1<<20-1).Draw(t, "label"),
			PayloadLen: UDPBytes + len(body), HopLimit: rapid.Uint8().Draw(t, "hops"), Src: src, Dst: dst,
		}).Put(b)
	} else {
		n = (&IPv4Fields{
			TOS: rapid.Uint8().Draw(t, "tos"), TotalLen: IPv4Bytes + UDPBytes + len(body), ID: rapid.Uint16().Draw(t, "id"),
			DontFragment: rapid.Bool().Draw(t, "DF"), TTL: rapid.Uint8().Draw(t, "ttl"), Src: src, Dst: dst,
		}).Put(b)
	}
	n += (&UDPFields{
		SrcPort: rapid.Uint16().Draw(t, "sport"), DstPort: Port, Len: UDPBytes + len(body), Checksum: rapid.Uint16().Draw(t, "sum"),
	}).Put(b[n:])
	n += copy(b[n:], body)
	PutICRC(b[:n])
	return b[:n]
}
