package endpoint

import (
	"errors"

	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/verbs"
)

// AH is an address handle: a destination of datagrams, resolved.
type AH struct {
	pd    *PD
	route Route
	label uint32
	gone  bool
}

// CreateAH makes an address handle.
func (p *PD) CreateAH(av verbs.AddressVector) (*AH, error) {
	name := p.e.cfg.Name
	if p.gone {
		return nil, verbs.Errorf("create_ah", name, verbs.ErrClosed, "the protection domain is deallocated")
	}
	route, err := p.e.cfg.Resolve(av)
	switch {
	case errors.Is(err, verbs.ErrNotSupported):
		return nil, verbs.Errorf("create_ah", name, err, "")
	case err != nil:
		return nil, verbs.Errorf("create_ah", name, verbs.ErrInvalid, "%v", err)
	}
	p.users++
	p.e.useGID(route.GID, 1)
	return &AH{pd: p, route: route, label: av.FlowLabel}, nil
}

// Close implements verbs.AH.
func (a *AH) Close() error {
	if a.gone {
		return verbs.Errorf("destroy_ah", a.pd.e.cfg.Name, verbs.ErrClosed, "")
	}
	a.gone = true
	a.pd.users--
	a.pd.e.useGID(a.route.GID, -1)
	return nil
}

// handle finds the AH in what a driver has made of it by embedding.
func (a *AH) handle() *AH { return a }

// address notes in w where the datagram of a UD queue pair goes.
func (q *QP) address(w *wqe, wr *verbs.SendWR) error {
	h, ok := wr.AH.(interface{ handle() *AH })
	if !ok {
		return verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "the address handle belongs to another provider")
	}
	a := h.handle()
	switch {
	case a.gone:
		return verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "the address handle is destroyed")
	case a.pd != q.pd:
		return verbs.Errorf("post_send", q.object(), verbs.ErrInvalid, "the address handle belongs to another protection domain")
	}
	w.to, w.qpn, w.qkey = a.route, wr.RemoteQPN, rc.QKey(wr.RemoteQKey, q.attr.QKey)
	w.to.SrcPort = srcPort(q.num, w.qpn, a.label)
	return nil
}
