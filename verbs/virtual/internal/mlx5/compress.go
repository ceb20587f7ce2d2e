package mlx5

import (
	"encoding/binary"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// A compressed session stands for up to MaxSession CQEs of one queue that differ in little:
// in the first one's slot is its CQE, the title, with the number of CQEs for its byte
// count; in the slots 1, 8, 16 and so on behind it are arrays of eight mini CQEs, of which
// the first is the title's own. The other slots of the session are not written: the program
// sets their owner bits when it has read it. libmlx5 of rdma-core 44 leaves that to the
// program, which reads the ring that mlx5dv_init_obj shows; Linux' mlx5e (en_rx.c) and DPDK's
// mlx5 do so.
const (
	// MaxSession is the number of CQEs a session has at most (mlx5dv_cqe_comp_caps.max_num).
	MaxSession = batch

	miniBytes = 8
	minis     = connectx.CQEBytes / miniBytes // of an array
)

// Compression names the field of a responder's mini CQE beside the byte count
// (mlx5dv_cqe_comp_res_format): a packet's hash or its checksum, which are 0 for RDMA. A
// requester's has the WQE's counter and opcode.
type Compression uint8

// Compression's values.
const (
	Uncompressed Compression = 0
	CompressHash Compression = 1 << 0
	CompressSum  Compression = 1 << 1
)

// packer is the state of a CQ with compression beside the staged CQEs.
type packer struct {
	entries [batch]entry
	arrays  [batch * connectx.CQEBytes]byte
	pieces  []verbs.MemoryPiece
}

// follows reports whether e may be in the session whose last CQE is of prev: all that a
// mini CQE does not say is the same or follows from the title.
func (e *entry) follows(prev *entry) bool {
	if e.syndrome != 0 || e.scatter != 0 || e.opcode == connectx.CQEResize {
		return false
	}
	like := *prev
	like.bytes, like.timestamp = e.bytes, e.timestamp
	if e.opcode == connectx.CQEReq {
		like.counter, like.wqeOpcode = e.counter, e.wqeOpcode
	} else {
		like.counter++
	}
	return like == *e
}

// mini writes the CQE's mini CQE.
func (e *entry) mini(b []byte) {
	clear(b[:4])
	if e.opcode == connectx.CQEReq {
		binary.BigEndian.PutUint16(b, e.counter)
		b[2] = e.wqeOpcode
	}
	binary.BigEndian.PutUint32(b[4:], e.bytes)
}

// pack compresses the n staged CQEs, and returns what is to be written: bodies, of which
// there are some, and then owner bytes.
func (c *CQ) pack(n int) (pieces []verbs.MemoryPiece, bodies int) {
	p := c.packer
	slot := func(i int) uint64 {
		return c.cfg.Buffer + uint64((int(c.produced-uint32(n))+i)&(c.cfg.Entries-1)*connectx.CQEBytes)
	}
	pieces = p.pieces[:0]
	for i := 0; i < n; {
		last := i + 1
		for last < n && p.entries[last].follows(&p.entries[last-1]) {
			last++
		}
		title := c.buf[i*connectx.CQEBytes:][:connectx.CQEBytes]
		pieces = append(pieces, verbs.MemoryPiece{Addr: slot(i), Data: title})
		if last-i > 1 {
			binary.BigEndian.PutUint32(title[connectx.CQECount:], uint32(last-i))
			c.owners[i] |= connectx.Compressed
			for k := i; k < last; k += minis {
				array := p.arrays[k*connectx.CQEBytes:][:connectx.CQEBytes]
				clear(array)
				for m := k; m < min(k+minis, last); m++ {
					p.entries[m].mini(array[(m-k)*miniBytes:])
				}
				pieces = append(pieces, verbs.MemoryPiece{Addr: slot(max(k, i+1)), Data: array})
			}
		}
		i = last
	}
	bodies = len(pieces)
	for i := 0; i < n; {
		pieces = append(pieces, verbs.MemoryPiece{Addr: slot(i) + connectx.CQEBytes - 1, Data: c.owners[i : i+1]})
		if c.owners[i]&connectx.Compressed == connectx.Compressed {
			i += int(binary.BigEndian.Uint32(c.buf[i*connectx.CQEBytes+connectx.CQECount:]))
		} else {
			i++
		}
	}
	return pieces, bodies
}
