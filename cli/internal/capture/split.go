package capture

import (
	"github.com/sluice-rdma/sluice/cli/internal/offload"
	"github.com/sluice-rdma/sluice/roce"
)

// A host that leaves segmentation to its interface (UDP_SEGMENT), or puts what arrives
// together (GRO), shows a capture several packets as one: one IP and UDP header for all,
// and each packet's BTH to ICRC one behind the other, as long as the first but for the
// last. The length of the first is not in the capture; it is the one with which ICRCs
// are right.

const (
	maxMTU = 4096
	// maxTries bounds the lengths that are tried on a frame, each of which costs the
	// ICRCs of all of it. Nearly always the first that looks like one is right.
	maxTries = 16
)

// several reports whether a packet is longer than any can be, with the largest headers
// and MTU.
func (p *packet) several() bool {
	return p.where.Len > roce.HeaderBytes(p.Opcode)+maxMTU+roce.ICRCBytes
}

// whole reports whether a frame has the length of several packets without payload.
func (p *packet) whole() bool {
	each := roce.HeaderBytes(p.Opcode) + roce.ICRCBytes
	return !roce.HasPayload(p.Opcode) && p.where.Len > each && p.where.Len%each == 0
}

// splitter finds out what a frame stands for. Its memory is used again.
type splitter struct {
	finisher offload.Finisher
	size     int
	id       offload.Numbering
	known    bool // id: else no packet but the first can be checked
}

// cut looks for the length of a frame's packets, and for how IPv4 numbers them. It
// reports whether there is a length with which at least one of several packets is right.
func (s *splitter) cut(f *roce.Frame) bool {
	tries := 0
	for size := roce.BTHBytes + roce.ICRCBytes; size <= roce.BTHBytes+maxHeaders+maxMTU+roce.ICRCBytes && size < len(f.IB); size += 4 {
		if !alike(f.IB, size) {
			continue
		}
		if tries++; tries > maxTries {
			return false
		}
		best, most, known := offload.Rising, 0, false
		for _, id := range []offload.Numbering{offload.Rising, offload.Same} {
			good, at, later := 0, 0, f.Src.Is6()
			s.size, s.id = size, id
			s.each(f.IP, func(ip []byte) {
				if roce.CheckICRC(ip) {
					good++
					later = later || at > 0
				}
				at++
			})
			if good > most {
				best, most, known = id, good, later
			}
		}
		if most > 0 {
			s.id, s.known = best, known
			return true
		}
	}
	return false
}

// maxHeaders is more than any extended headers have.
const maxHeaders = 64

// each hands out the packets, which hold during the call.
func (s *splitter) each(ip []byte, take func(ip []byte)) {
	_ = s.finisher.Split(ip, s.size, s.id, take) // its headers were parsed before
}

// alike reports whether each packet of a length begins as the first does: with the
// version of transport headers and the partition.
func alike(ib []byte, size int) bool {
	const version, partition = 1, 2
	for at := size; at < len(ib); at += size {
		if len(ib)-at < roce.BTHBytes+roce.ICRCBytes {
			return false
		}
		if b := ib[at:]; b[version]&0x0f != 0 || b[partition] != ib[partition] || b[partition+1] != ib[partition+1] {
			return false
		}
	}
	return true
}
