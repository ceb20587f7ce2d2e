package storm

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// sharedReceives is a process's shared receive queue.
type sharedReceives struct {
	srq verbs.SRQ
	mr  verbs.MR
	mem []byte
	n   int
}

func (w *peer) shareReceives(links int) error {
	s := &sharedReceives{n: w.weather.receives * links}
	var err error
	if s.srq, err = w.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: s.n, MaxSGE: 1}); err != nil {
		return err
	}
	s.mem = make([]byte, s.n*sourceBytes)
	if s.mr, err = w.pd.RegMR(s.mem, ib.AccessLocalWrite); err != nil {
		return err
	}
	w.srq = s
	for i := range s.n {
		s.again(w, recvID|uint64(i))
	}
	return nil
}

// slot is the memory of a receive.
func (s *sharedReceives) slot(id uint64) []byte {
	return s.mem[int(id&^recvID)*sourceBytes:][:sourceBytes]
}

// again posts a receive.
func (s *sharedReceives) again(w *peer, id uint64) {
	wr := verbs.RecvWR{WRID: id, SGL: []verbs.SGE{verbs.SGEOf(s.mr, int(id&^recvID)*sourceBytes, sourceBytes)}}
	if _, err := s.srq.PostRecv([]verbs.RecvWR{wr}); err != nil {
		w.p.Failf("post_srq_recv: %v", err)
	}
}

// limitReceives asks for an event when few receives are left, where the device has that. Its twin
// knows when it must come.
func (w *peer) limitReceives() {
	s, ok := w.srq.srq.(verbs.LimitSRQ)
	if !ok {
		return
	}
	n := w.p.Rand.IntN(w.srq.n+3) - 1
	var want error
	if n < 0 || n > w.srq.n {
		want = verbs.ErrInvalid
	}
	if err := s.SetLimit(n); !refused(err, want) && !refused(err, verbs.ErrNotSupported) {
		w.p.Failf("rule 20: a limit of %d of %d receives: %v, expected %v", n, w.srq.n, err, want)
	}
}

func (s *sharedReceives) free() error {
	if err := s.srq.Close(); err != nil {
		return err
	}
	return s.mr.Close()
}

// scratch is objects that nothing depends on.
type scratch struct {
	qps []verbs.QP
	mrs []verbs.MR
	cqs []verbs.CQ
}

func (s *scratch) free() {
	for _, q := range s.qps {
		_ = q.Close()
	}
	for _, m := range s.mrs {
		_ = m.Close()
	}
	for _, c := range s.cqs {
		_ = c.Close()
	}
}

// abuse calls the API in some arbitrary way. Whatever comes of it, nothing that the
// program relies on may change.
func (w *peer) abuse() {
	r, s := w.p.Rand, &w.scratch
	pick := func() verbs.QP {
		if len(s.qps) == 0 {
			return nil
		}
		return s.qps[r.IntN(len(s.qps))]
	}
	sge := []verbs.SGE{{Addr: r.Uint64(), Length: r.Uint32N(1 << 20), LKey: r.Uint32()}}
	if len(s.mrs) > 0 && r.IntN(2) == 0 {
		m := s.mrs[r.IntN(len(s.mrs))]
		sge = []verbs.SGE{{Addr: m.Addr() + uint64(r.IntN(64)), Length: r.Uint32N(128), LKey: m.LKey()}}
	}
	switch r.IntN(10) {
	case 0:
		if len(s.qps) < 4 {
			q, err := w.pd.CreateQP(verbs.QPInitAttr{
				Type: []ib.QPType{ib.RC, ib.UC, ib.UD}[r.IntN(3)], SendCQ: w.send, RecvCQ: w.recv,
				Cap: verbs.QPCap{MaxSendWR: r.IntN(9), MaxRecvWR: r.IntN(9), MaxSendSGE: 1, MaxRecvSGE: 1},
			})
			if err == nil {
				s.qps = append(s.qps, q)
			}
		}
	case 1:
		if len(s.qps) > 0 {
			i := r.IntN(len(s.qps))
			if s.qps[i].Close() == nil {
				s.qps = append(s.qps[:i], s.qps[i+1:]...)
			}
		}
	case 2, 3:
		if q := pick(); q != nil {
			a := verbs.QPAttr{
				State: ib.QPState(r.IntN(8)), Port: r.IntN(3), PathMTU: ib.MTU(256 << r.IntN(6)), DestQPN: r.Uint32(), RQPSN: r.Uint32(), SQPSN: r.Uint32(),
				AV: verbs.AddressVector{GID: w.p.Address(r.IntN(w.p.Processes))}, Timeout: uint8(r.IntN(12)), RetryCnt: uint8(r.IntN(9)), RNRRetry: uint8(r.IntN(9)),
				MinRNRTimer: uint8(r.IntN(33)), MaxRdAtomic: uint8(r.IntN(200)), MaxDestRdAtomic: uint8(r.IntN(200)), QKey: r.Uint32(),
			}
			masks := []verbs.QPAttrMask{
				verbs.ResetToInitRC, verbs.InitToRTRRC, verbs.RTRToRTSRC, verbs.ResetToInitUD, verbs.InitToRTRUC, verbs.AttrState, verbs.QPAttrMask(r.Uint32()),
			}
			_ = q.Modify(a, masks[r.IntN(len(masks))])
		}
	case 4:
		if q := pick(); q != nil {
			_, _ = q.PostSend([]verbs.SendWR{{
				WRID: r.Uint64(), Opcode: ib.WROpcode(r.IntN(8)), Flags: verbs.SendFlags(r.IntN(16)), SGL: sge, RemoteAddr: r.Uint64(), RKey: r.Uint32(), Inline: make([]byte, r.IntN(80)),
			}})
		}
	case 5:
		if q := pick(); q != nil {
			_, _ = q.PostRecv([]verbs.RecvWR{{WRID: r.Uint64(), SGL: sge}})
		}
	case 6:
		if len(s.mrs) < 4 {
			m, err := w.pd.RegMR(make([]byte, r.IntN(256)), ib.AccessFlags(r.IntN(64)))
			if err == nil {
				s.mrs = append(s.mrs, m)
			}
		}
	case 7:
		if len(s.mrs) > 0 {
			i := r.IntN(len(s.mrs))
			if s.mrs[i].Close() == nil {
				s.mrs = append(s.mrs[:i], s.mrs[i+1:]...)
			}
		}
	case 8:
		if len(s.cqs) < 3 {
			c, err := w.dev.CreateCQ(verbs.CQInitAttr{CQE: r.IntN(64)})
			if err == nil {
				s.cqs = append(s.cqs, c)
			}
		}
	default:
		if q := pick(); q != nil {
			_, _ = q.Query()
		}
	}
}
