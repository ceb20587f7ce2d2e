package scenario

import (
	"strings"
	"testing"
)

// What a card does about losses holds for systems whose engine is the card's own or none; others have it if they ask.
// The card's own engine runs where no switch marks, and inside the NIC.
func TestCardsRepairLosses(t *testing.T) {
	const head = `
topology: {kind: star, hosts: 3}
nic: {preset: cx5}
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: unlimited}]}]
systems:
`
	for _, c := range []struct {
		system string
		adp    bool
		nak    bool
		inNIC  bool
	}{
		{"{engine: none}", true, true, false},
		{"{engine: nic-default}", true, true, true},
		{"{engine: timely}", false, false, false},
		{"{engine: timely, override: {nic: {with: {transport: {adp_retrans: {enabled: true}, nak_time: 5us}}}}}", true, true, false},
		{"{engine: nic-default, override: {nic: {with: {transport: {adp_retrans: {enabled: false}, nak_time: 0s}}}}}", false, false, true},
		{"{engine: nic-default, override: {nic: {preset: cx3}}}", false, false, true},
	} {
		s, err := Parse("card", []byte(head+"  - "+c.system+"\n"))
		if err != nil {
			t.Errorf("%s: %v", c.system, err)
			continue
		}
		sys := s.Systems[0]
		if nak := sys.NICConfig().Transport.NAKTime > 0; nak != c.nak {
			t.Errorf("%s: a time to a NAK %t", c.system, nak)
		}
		if got := sys.NICConfig().Transport.AdpRetrans.Enabled; got != c.adp || sys.Offload() != c.inNIC {
			t.Errorf("%s: adaptive retransmission %t, in the NIC %t", c.system, got, sys.Offload())
		}
	}
	if _, err := Parse("card", []byte(head+"  - {engine: nic-default, override: {nic: {mode: host}}}\n")); err == nil || !strings.Contains(err.Error(), "nic.mode") {
		t.Errorf("nic-default in a host: %v", err)
	}
	if _, err := Parse("card", []byte(head+"  - {engine: dcqcn}\n")); err == nil || !strings.Contains(err.Error(), "fabric.ecn.kmin") {
		t.Errorf("dcqcn without marks: %v", err)
	}
}
