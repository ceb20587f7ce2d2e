package roce

import (
	"encoding/binary"
	"fmt"
)

// EtherTypes that are understood here.
const (
	EtherTypeIPv4 = 0x0800
	EtherTypeVLAN = 0x8100 // 802.1Q
	EtherTypeIPv6 = 0x86dd
	EtherTypeQinQ = 0x88a8 // 802.1ad, the outer tag
)

// Sizes in bytes.
const (
	EthernetBytes = 14
	VLANBytes     = 4
)

// maxTags bounds the VLAN tags that are looked through.
const maxTags = 2

// MAC is an Ethernet address.
type MAC [6]byte

func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// Ethernet is a view over a frame that begins with the destination address and
// has at least EthernetBytes bytes.
type Ethernet []byte

// Dst returns the destination address.
func (e Ethernet) Dst() MAC { return MAC(e[0:6]) }

// Src returns the source address.
func (e Ethernet) Src() MAC { return MAC(e[6:12]) }

// Payload returns the EtherType behind up to two VLAN tags and where its payload
// begins. The tag is the inner one's 16 bits (priority, DEI, VLAN ID) and 0 on an
// untagged frame. An offset of 0 means that the frame ends within its tags.
func (e Ethernet) Payload() (etherType uint16, offset int, tag uint16) {
	offset = EthernetBytes
	etherType = binary.BigEndian.Uint16(e[12:])
	for n := 0; n < maxTags && (etherType == EtherTypeVLAN || etherType == EtherTypeQinQ); n++ {
		if len(e) < offset+VLANBytes {
			return 0, 0, 0
		}
		tag = binary.BigEndian.Uint16(e[offset:])
		etherType = binary.BigEndian.Uint16(e[offset+2:])
		offset += VLANBytes
	}
	return etherType, offset, tag
}

// EthernetFields are the fields of an Ethernet header with at most one tag.
type EthernetFields struct {
	Dst, Src  MAC
	EtherType uint16
	Tagged    bool
	Tag       uint16 // 802.1Q: priority in the upper three bits, VLAN ID in the lower twelve
}

// Put writes the header to b, which must have room for it, and returns its
// length: 14 bytes, or 18 with a tag.
func (f *EthernetFields) Put(b []byte) int {
	copy(b, f.Dst[:])
	copy(b[6:], f.Src[:])
	n := 12
	if f.Tagged {
		binary.BigEndian.PutUint16(b[n:], EtherTypeVLAN)
		binary.BigEndian.PutUint16(b[n+2:], f.Tag)
		n += VLANBytes
	}
	binary.BigEndian.PutUint16(b[n:], f.EtherType)
	return n + 2
}
