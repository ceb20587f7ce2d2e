package bench

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/scenario"
)

const twoFlows = `
duration: 1ms
topology: {kind: star, hosts: 3}
nic: {mtu: 1024}
systems: [{engine: none}, {engine: dcqcn, override: {nic: {mode: offload}, fabric: {ecn: {kmin: 1KiB, kmax: 1KiB, pmax: 1}}}}]
workloads: [{kind: incast, receiver: h0, senders: 2, size: 100KB}]
`

// The packets of a run are on the wire as RoCEv2 has them: each byte of the flows, the
// acknowledgements, notifications of congestion, all with good checks; and two runs have the
// same.
func TestPackets(t *testing.T) {
	s, err := scenario.Parse("two.yaml", []byte(twoFlows))
	if err != nil {
		t.Fatal(err)
	}
	var files [2]bytes.Buffer
	for i := range files {
		if _, err := Run(s, Options{Packets: &files[i]}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0].Bytes(), files[1].Bytes()) {
		t.Error("two runs give different packets")
	}
	r, err := pcapgo.NewNgReader(&files[0], pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	payload, ofKind := [2]int{}, [2]map[ib.Opcode]int{{}, {}}
	for {
		b, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var f roce.Frame
		if err := f.ParseEthernet(b); err != nil {
			t.Fatal(err)
		}
		ip := b[roce.EthernetBytes:]
		if !roce.CheckICRC(ip) || !roce.IPv4(ip).ChecksumOK() {
			t.Fatalf("a packet with a bad check: %x", b)
		}
		var p roce.Packet
		data, err := p.Decode(ip[roce.IPv4Bytes+roce.UDPBytes:])
		if err != nil {
			t.Fatalf("%v in %x", err, b)
		}
		payload[info.InterfaceIndex] += len(data)
		ofKind[info.InterfaceIndex][p.Opcode]++
	}
	for i, n := range payload {
		if n != 200_000 || ofKind[i][ib.Acknowledge] == 0 {
			t.Errorf("system %d: %d bytes of payload, expected those of two flows of 100 KB; packets %v", i, n, ofKind[i])
		}
	}
	if ofKind[0][ib.CNP] != 0 || ofKind[1][ib.CNP] == 0 {
		t.Errorf("notifications without marks: %d, with: %d", ofKind[0][ib.CNP], ofKind[1][ib.CNP])
	}
}
