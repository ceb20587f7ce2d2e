package mlx5

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// Scattering to CQEs: what comes back for a request, or what is received, goes into the CQE
// if it is little: 32 bytes of a CQE of 64, 64 before one of 128. libmlx5 copies it to where
// the WQE says when it polls. So the device writes to the program's memory once. It does not
// look at the WQE's keys then, since it does not use them.

// stage is memory of the device's for such data, until the CQE is written: stageBytes for
// each WQE of a ring.
type stage struct {
	limit uint32 // bytes that go into a CQE; 0 for none
	mr    verbs.MR
	bytes []byte
}

const stageBytes = 64

// init makes the stage for a ring of n WQEs and CQEs of a size.
func (s *stage) init(pd verbs.PD, n, entrySize int) (err error) {
	s.limit = uint32(entrySize / 2)
	s.bytes = make([]byte, n*stageBytes)
	s.mr, err = pd.RegMR(s.bytes, ib.AccessLocalWrite)
	return err
}

func (s *stage) release() {
	if s.mr != nil {
		_ = s.mr.Close()
	}
}

// sge returns the destination of up to n bytes of the WQE at an index, no more than a CQE
// takes.
func (s *stage) sge(index int, n uint64) verbs.SGE {
	return verbs.SGE{Addr: s.mr.Addr() + uint64(index*stageBytes), Length: uint32(min(n, uint64(s.limit))), LKey: s.mr.LKey()}
}

// data returns n bytes of the WQE at an index, and how they are scattered.
func (s *stage) data(index int, n uint32) (data []byte, scatter uint8) {
	scatter = connectx.Scatter32
	if s.limit == stageBytes {
		scatter = connectx.Scatter64
	}
	return s.bytes[index*stageBytes:][:n], scatter
}

func bytesOf(list []verbs.SGE) (n uint64) {
	for i := range list {
		n += uint64(list[i].Length)
	}
	return n
}

// scatterSent leads what comes back for a request to the stage if its CQE will have it.
func (q *QP) scatterSent(r *request, counter uint16) {
	s, w := &q.send.small, q.send.at(counter)
	w.scattered = false
	if s.limit == 0 || r.wr.Opcode != ib.WRRDMARead && !r.wr.Opcode.IsAtomic() || r.wr.Flags&verbs.SendSignaled == 0 && !q.cfg.SigAll {
		return
	}
	if n := bytesOf(r.wr.SGL); n > 0 && n <= uint64(s.limit) {
		r.wr.SGL = r.wr.SGL[:1]
		r.wr.SGL[0] = s.sge(int(counter)&(len(q.send.wqes)-1), n)
		w.scattered = true
	}
}
