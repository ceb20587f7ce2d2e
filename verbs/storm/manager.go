package storm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// lookUpService is one that nobody connects to: it is looked up.
const lookUpService = service + 1

// impossible begins the private data of requests that must make no connection, and forgedMark that
// of requests in another's name that may.
var impossible = []byte("impossible")

// agreed says what is wrong with what both sides have agreed on, as the connection manager has it.
func (e *end) agreed(ev *cm.Event, w *weather) error {
	other, p := e.link.other(e.side), &ev.Parameters
	if other == nil || other.isOver {
		return nil
	}
	switch {
	case p.RemoteQPN != other.hello.qpn || uint32(p.SQPSN) != other.hello.psn:
		return fmt.Errorf("rule 21: the other side has queue pair %#x and wants number %#x first, and the event says %#x and %#x", other.hello.qpn, other.hello.psn, p.RemoteQPN, uint32(p.SQPSN))
	case p.PathMTU != w.mtu || p.RetryCount != 7 || p.RNRRetryCount != 7 || p.HopLimit != 64 || p.MaxRdAtomic != w.rdAtomic || p.MaxDestRdAtomic != w.rdAtomic || p.RemoteSRQ || p.FlowControl || p.Timeout == 0:
		return fmt.Errorf("rule 21: agreed is %+v", *p)
	case p.Path.Remote != e.p.Address(other.p.ID) || p.Path.Local != e.p.Address(e.p.ID):
		return fmt.Errorf("rule 21: the path is %v", p.Path)
	case ev.Type == cm.EventReply && (p.QPN != e.hello.qpn || uint32(p.RQPSN) != e.hello.psn):
		return fmt.Errorf("rule 21: this side has queue pair %#x and wants number %#x first, and the event says %#x and %#x", e.hello.qpn, e.hello.psn, p.QPN, uint32(p.RQPSN))
	}
	return nil
}

// lookUp asks another process who serves lookUpService.
func (w *peer) lookUp() {
	to := (w.p.ID + 1 + w.p.Rand.IntN(w.p.Processes-1)) % w.p.Processes
	private := []byte{byte(w.p.ID), byte(to), byte(w.p.Rand.Uint32())}
	id, err := w.agent.core.LookUp(w.p.Now(), cm.LookUp{Path: cm.Path{Local: w.p.Address(w.p.ID), Remote: w.p.Address(to)}, ServiceID: lookUpService, Private: private})
	if err != nil {
		w.p.Failf("a look-up: %v", err)
		return
	}
	w.lookUps[id] = private
	w.agent.drain()
}

// served is what a process answers who looks it up: by that the answer is known to be to the question.
func served(private []byte) cm.Answer {
	return cm.Answer{
		Status: roce.SIDRStatus(private[2] & 1), QPN: 2 + uint32(private[2])<<8 | uint32(private[1]), QKey: uint32(private[0])<<16 | uint32(private[2]),
		Private: bytes.Clone(private[:3]),
	}
}

// lookedUp handles the events of look-ups, and reports whether it was one.
func (w *peer) lookedUp(ev *cm.Event) bool {
	switch ev.Type {
	case cm.EventLookUp:
		if ev.ServiceID != lookUpService || len(ev.Private) < 3 || int(ev.Private[1]) != w.p.ID {
			w.p.Failf("rule 21: a look-up of service %#x with %x, which nobody makes", ev.ServiceID, ev.Private)
			return true
		}
		if w.p.Rand.IntN(8) > 0 { // else it takes too long
			if err := w.agent.core.Answer(w.p.Now(), ev.ID, served(ev.Private)); err != nil {
				w.p.Failf("rule 21: a look-up: %v", err)
			}
		}
		return true
	case cm.EventFound, cm.EventUnreachable:
		private, ours := w.lookUps[ev.ID]
		if !ours {
			return ev.Type == cm.EventFound
		}
		delete(w.lookUps, ev.ID)
		if ev.Type == cm.EventUnreachable {
			return true
		}
		want := served(private)
		if got := ev.Answer; got.Status != want.Status || got.QPN != want.QPN || got.QKey != want.QKey || !bytes.HasPrefix(ev.Private, want.Private) {
			w.p.Failf("rule 21: a look-up is answered with %+v and %x, expected %+v", got, ev.Private, want)
		}
		return true
	}
	return false
}

// forgeRequest makes a request for a connection in a peer's name from one of its own: one that must
// make none, or one that its listener must refuse, or one that contradicts a connection.
func forgeRequest(draw *rand.Rand, r *roce.REQ, wide bool) {
	mark := impossible
	switch n := draw.IntN(8); n {
	case 0:
		r.LocalQPN = uint32(draw.IntN(2))
	case 1:
		r.PathMTU = []uint8{0, 6, 9, 4, 5}[draw.IntN(5)] // none, and 2048 and 4096, which the port does not have
	case 2:
		r.ServiceID += 1 << 32
	case 3:
		r.TransportType = roce.TransportRC + 1
	case 4:
		r.Primary.LocalGID[15] ^= 0x40
	case 5:
		r.Primary.RemoteGID[15] ^= 0x40
	case 6:
		mark = forgedMark
	default: // the peer's ID or queue pair, as if it had begun anew
		if wide {
			r.StartingPSN = (r.StartingPSN + 1) & 0xffffff
		} else {
			r.LocalCommID = draw.Uint32()
		}
		r.Private = slices.Concat(r.Private[:0:0], forgedMark)
		return
	}
	r.LocalCommID, r.LocalCAGUID = draw.Uint32(), draw.Uint64() // of no connection that there is
	if r.LocalQPN > 1 {
		r.LocalQPN = 2 + draw.Uint32N(1<<24-2)
	}
	r.StartingPSN = units.MakePSN(draw.Uint32())
	r.Private = slices.Clone(mark)
}

// refusal is the answer that a request which can't make a connection must get, by the first reason
// that there is; nil where it gets none, since it does not say who has sent it (12.6.7, 12.9.8.2).
func refusal(path cm.Path, mtu ib.MTU, r *roce.REQ) *roce.REJ {
	no := &roce.REJ{RemoteCommID: r.LocalCommID, Message: roce.AnswersREQ}
	switch gid := roce.GIDOf(path.Local); {
	case r.Primary.LocalGID.Addr() != path.Remote || r.LocalQPN < 2:
		return nil
	case r.ServiceID != service:
		no.Reason = roce.RejInvalidServiceID
	case r.TransportType != roce.TransportRC:
		no.Reason = roce.RejInvalidTransport
	case r.Primary.RemoteGID != gid:
		no.Reason, no.Info = roce.RejInvalidGID, gid[:]
	default:
		no.Reason, no.Info = roce.RejInvalidMTU, []byte{roce.MTUCode(mtu)}
	}
	return no
}

// refusedBy holds what was sent as an impossible request came against what must be: one refusal, to
// whom it came from, or nothing.
func refusedBy(path cm.Path, want *roce.REJ, sent []cm.Outgoing) error {
	if want == nil {
		if len(sent) > 0 {
			return fmt.Errorf("rule 21: a request of nobody is answered with %v", roce.MAD(sent[0].MAD[:]).Attribute())
		}
		return nil
	}
	var got roce.REJ
	if len(sent) != 1 {
		return fmt.Errorf("rule 21: a request that can't make a connection gets %d answers, expected that it is refused for %v", len(sent), want.Reason)
	}
	if err := got.Decode(roce.MAD(sent[0].MAD[:])); err != nil {
		return fmt.Errorf("rule 21: a request that can't make a connection gets an answer that is no refusal: %w", err)
	}
	if sent[0].Path != path || got.LocalCommID != 0 || got.RemoteCommID != want.RemoteCommID ||
		got.Message != want.Message || got.Reason != want.Reason || int(got.InfoLength) != len(want.Info) || !bytes.HasPrefix(got.Info, want.Info) {
		return fmt.Errorf("rule 21: a request that can't make a connection is answered with %+v, expected %+v", got, *want)
	}
	return nil
}
