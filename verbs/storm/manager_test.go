package storm

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// Requests that can't make a connection are refused for the first reason that there is, and what is
// answered otherwise is found.
func TestRefusal(t *testing.T) {
	path := cm.Path{Local: netip.MustParseAddr("10.0.0.2"), Remote: netip.MustParseAddr("10.0.0.1")}
	here, there := roce.GIDOf(path.Local), roce.GIDOf(path.Remote)
	for _, c := range []struct {
		name   string
		change func(r *roce.REQ)
		want   roce.RejectReason // 0: no answer
		info   []byte
	}{
		{"another sender", func(r *roce.REQ) { r.Primary.LocalGID = here }, 0, nil},
		{"no queue pair", func(r *roce.REQ) { r.LocalQPN = 1 }, 0, nil},
		{"no listener", func(r *roce.REQ) { r.ServiceID++ }, roce.RejInvalidServiceID, nil},
		{"another transport", func(r *roce.REQ) { r.TransportType = 1 }, roce.RejInvalidTransport, nil},
		{"another address", func(r *roce.REQ) { r.Primary.RemoteGID = there }, roce.RejInvalidGID, here[:]},
		{"too large an MTU", func(r *roce.REQ) { r.PathMTU = 5 }, roce.RejInvalidMTU, []byte{roce.MTUCode(portMTU)}},
	} {
		r := roce.REQ{LocalCommID: 7, LocalQPN: 9, ServiceID: service, PathMTU: roce.MTUCode(portMTU), Primary: roce.CMPath{LocalGID: there, RemoteGID: here}}
		c.change(&r)
		want := refusal(path, portMTU, &r)
		answer := func(change func(o *cm.Outgoing, no *roce.REJ)) []cm.Outgoing {
			o, no := cm.Outgoing{Path: path}, roce.REJ{RemoteCommID: 7, Message: roce.AnswersREQ, Reason: c.want, Info: c.info, InfoLength: uint8(len(c.info))}
			change(&o, &no)
			if _, err := no.Put(o.MAD[:], 1); err != nil {
				t.Fatal(err)
			}
			return []cm.Outgoing{o}
		}
		right := answer(func(*cm.Outgoing, *roce.REJ) {})
		if c.want == 0 {
			if err := refusedBy(path, want, nil); err != nil {
				t.Errorf("%s, no answer: %v", c.name, err)
			}
			if err := refusedBy(path, want, right); err == nil {
				t.Errorf("%s: an answer to nobody is not found", c.name)
			}
			continue
		}
		if err := refusedBy(path, want, right); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for what, sent := range map[string][]cm.Outgoing{
			"none":          nil,
			"two":           append(right, right...),
			"another":       answer(func(_ *cm.Outgoing, no *roce.REJ) { no.Reason = roce.RejConsumer }),
			"other info":    answer(func(_ *cm.Outgoing, no *roce.REJ) { no.Info, no.InfoLength = []byte{1, 2}, 2 }),
			"of another ID": answer(func(_ *cm.Outgoing, no *roce.REJ) { no.RemoteCommID++ }),
			"to another":    answer(func(o *cm.Outgoing, _ *roce.REJ) { o.Path.Remote = path.Local }),
		} {
			if err := refusedBy(path, want, sent); !strings.Contains(fmt.Sprint(err), "rule 21") {
				t.Errorf("%s, the answer is %s: %v", c.name, what, err)
			}
		}
	}
}
