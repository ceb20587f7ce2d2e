//go:build linux

package ucma

import (
	"net/netip"
	"syscall"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// Identifiers of datagrams: their "connections" are look-ups of the queue pair that
// serves a port.

// lookUp sends the question.
func (i *ident) lookUp(p *connParam) syscall.Errno {
	private, errno := i.withAddresses(p.private, roce.SIDRREQPrivateBytes)
	if errno != 0 {
		return errno
	}
	id, err := i.dev.core.LookUp(i.dev.now(), cm.LookUp{
		Path: cm.Path{Local: i.src.Addr(), Remote: i.dst.Addr()}, ServiceID: i.space.ServiceID(i.dst.Port()), Private: private,
	})
	if err == nil {
		i.began(id)
	}
	return errnoOf(err)
}

// found hands on the answer.
func (i *ident) found(e *cm.Event) {
	a := &e.Answer
	if a.Status != roce.SIDRSuccess {
		i.report(event{kind: evUnreachable, status: int32(a.Status), ud: udParam{private: e.Private}})
		return
	}
	i.report(event{kind: evEstablished, ud: udParam{qpn: a.QPN, qkey: a.QKey, ah: i.ah(), private: e.Private}})
}

// answerLookUp answers a question.
func (i *ident) answerLookUp(uid uint64, p *connParam) syscall.Errno {
	a := cm.Answer{}
	if p.valid {
		a.QPN, a.QKey, a.Private = p.qpn, p.qkey, p.private
		if a.QKey == 0 {
			a.QKey = udpQKey
		}
	}
	if err := i.dev.core.Answer(i.dev.now(), i.cmID, a); err != nil {
		return errnoOf(err)
	}
	if p.valid {
		i.uid = uid
	}
	return 0
}

// requested makes an identifier of a peer's request or question, if a listener has room
// for it.
func (d *device) requested(e *cm.Event) {
	asks := e.Type == cm.EventLookUp
	refuse := func(r roce.RejectReason, s roce.SIDRStatus) {
		if asks {
			_ = d.core.Answer(d.now(), e.ID, cm.Answer{Status: s})
		} else {
			_ = d.core.Reject(d.now(), e.ID, r, nil, nil)
		}
	}
	path := e.Parameters.Path
	var ip roce.IPCM
	private, err := ip.Decode(e.Private)
	l := d.host.listener(e.ServiceID, path.Local)
	switch {
	case err != nil || l == nil || l.isUD != asks:
		refuse(roce.RejInvalidServiceID, roce.SIDRUnsupported)
		return
	case l.backlog == 0:
		refuse(roce.RejConsumer, roce.SIDRReject)
		return
	case d.core.Hold(d.now(), e.ID) != nil:
		return
	}
	l.backlog--
	i := d.host.newIdent(l.file, l.space, l.isUD)
	i.state, i.passive, i.dev, i.cmID, i.par = connecting, true, d, e.ID, e.Parameters
	i.src, i.dst = netip.AddrPortFrom(path.Local, l.src.Port()), netip.AddrPortFrom(path.Remote, ip.SrcPort)
	i.tos = e.Parameters.TrafficClass
	d.conns[e.ID] = i
	ev := event{uid: l.uid, id: i.id, kind: evConnectRequest, isUD: l.isUD}
	if asks {
		ev.ud.private = private
	} else {
		ev.conn = i.parameters(private)
	}
	l.file.add(pending{event: ev, of: l, made: i})
}
