package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// What a capture may have a reader hold, however it was made: a few bytes of a
// compressed file can stand for gigabytes.
const (
	maxFrameBytes = 256 << 10 // libpcap's MAXIMUM_SNAPLEN
	maxBlockBytes = 1 << 20   // of pcapng: a frame and its options
	maxInterfaces = 4096      // of a section
)

// blockLimiter passes a pcapng file through as long as its blocks keep the limits. It
// looks at no more than each block's type and length, which the file's bytes begin with.
type blockLimiter struct {
	in         io.Reader
	order      binary.ByteOrder // of the section
	head       [12]byte         // type, length, and a section's byte-order magic
	have       int              // bytes of head
	left       uint32           // bytes of the block behind head
	interfaces int
}

const (
	blockInterface = 1
	orderMagic     = 0x1a2b3c4d
)

// Read implements io.Reader.
func (l *blockLimiter) Read(b []byte) (int, error) {
	n, err := l.in.Read(b)
	for rest := b[:n]; len(rest) > 0; {
		if l.left > 0 {
			skip := min(uint64(l.left), uint64(len(rest)))
			l.left -= uint32(skip)
			rest = rest[skip:]
			continue
		}
		k := copy(l.head[l.have:], rest)
		l.have += k
		rest = rest[k:]
		if l.have < len(l.head) {
			break
		}
		l.have = 0
		if err := l.block(); err != nil {
			return 0, err
		}
	}
	return n, err
}

// block looks at a block's first bytes.
func (l *blockLimiter) block() error {
	if binary.LittleEndian.Uint32(l.head[:]) == magicSection {
		l.order, l.interfaces = binary.BigEndian, 0
		if binary.LittleEndian.Uint32(l.head[8:]) == orderMagic {
			l.order = binary.LittleEndian
		}
	}
	if l.order == nil {
		return errors.New("it has a block before its section header")
	}
	length := l.order.Uint32(l.head[4:])
	switch {
	case length < uint32(len(l.head)):
		return fmt.Errorf("a block has %d bytes: at least %d", length, len(l.head))
	case length > maxBlockBytes:
		return fmt.Errorf("a block has %d bytes: at most %d", length, maxBlockBytes)
	}
	if l.order.Uint32(l.head[:]) == blockInterface {
		if l.interfaces++; l.interfaces > maxInterfaces {
			return fmt.Errorf("a section has more than %d interfaces", maxInterfaces)
		}
	}
	l.left = length - uint32(len(l.head))
	return nil
}
