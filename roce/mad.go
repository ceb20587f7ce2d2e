package roce

import (
	"encoding/binary"
	"fmt"
)

// Management datagrams (IBA 13.4) as far as communication management (chapter 12)
// uses them.

// MADBytes is the length of every management datagram.
const MADBytes = 256

// The general services interface: the queue pair that management datagrams go
// between and its well-known Q_Key (IBA 3.5.3, 3.9.4).
const (
	GSIQP   = 1
	GSIQKey = 0x80010000
)

// The common header of communication management's datagrams (IBA 13.4.3, 16.7.1).
const (
	madHeaderBytes    = 24
	madBaseVersion    = 1
	madClassCM        = 0x07
	madClassVersionCM = 2
	madMethodSend     = 3
)

// MAD is a view over a management datagram, MADBytes long.
type MAD []byte

// Attribute says which CM message a datagram is (IBA 12.6, 16.7.2).
type Attribute uint16

// CM messages.
const (
	AttrREQ  Attribute = 0x10 // request for communication
	AttrMRA  Attribute = 0x11 // message receipt acknowledgement
	AttrREJ  Attribute = 0x12 // reject
	AttrREP  Attribute = 0x13 // reply to a request
	AttrRTU  Attribute = 0x14 // ready to use
	AttrDREQ Attribute = 0x15 // request for communication release
	AttrDREP Attribute = 0x16 // reply to a request for release

	AttrSIDRREQ Attribute = 0x17 // service ID resolution request
	AttrSIDRREP Attribute = 0x18 // service ID resolution response
)

// NumAttributes counts them; they follow one another from AttrREQ on.
const NumAttributes = 9

var attributeNames = [NumAttributes]string{"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP"}

func (a Attribute) known() bool { return a >= AttrREQ && a < AttrREQ+NumAttributes }

func (a Attribute) String() string {
	if a.known() {
		return attributeNames[a-AttrREQ]
	}
	return fmt.Sprintf("Attribute(%#x)", uint16(a))
}

// ParseMAD returns b as a view if it is one of the nine CM messages, class version 2, and a Malformed otherwise.
func ParseMAD(b []byte) (MAD, error) {
	if len(b) != MADBytes {
		return nil, BadMADLength
	}
	m := MAD(b)
	switch {
	case b[1] != madClassCM:
		return nil, NotCM
	case b[0] != madBaseVersion || b[2] != madClassVersionCM || b[3] != madMethodSend:
		return nil, BadMADHeader
	case !m.Attribute().known():
		return nil, UnknownCMMessage
	}
	return m, nil
}

// Attribute says which message this is.
func (m MAD) Attribute() Attribute { return Attribute(binary.BigEndian.Uint16(m[16:])) }

// TransactionID returns the transaction's number, which the messages of one
// exchange share (IBA 12.6.5 and on): a requester draws it, answers carry it back.
func (m MAD) TransactionID() uint64 { return binary.BigEndian.Uint64(m[8:]) }

// LocalCommID returns the sender's communication ID, the number of the connection at its
// end; of service ID resolution the request's ID, which both messages have.
func (m MAD) LocalCommID() uint32 { return binary.BigEndian.Uint32(m[madHeaderBytes:]) }

// RemoteCommID returns the receiver's communication ID, 0 where a message has none.
func (m MAD) RemoteCommID() uint32 {
	switch m.Attribute() {
	case AttrREQ, AttrSIDRREQ, AttrSIDRREP:
		return 0
	}
	return binary.BigEndian.Uint32(m[madHeaderBytes+4:])
}
