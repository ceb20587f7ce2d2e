//go:build linux

package guest

import (
	"encoding/binary"
	"errors"
)

// Messages between library and server are packets of a SOCK_SEQPACKET socket, in the
// machine's byte order, as verbs/virtual/preload/message.h has them: one request at a
// time, answered by one reply.

// version is that of the messages: the library's and the server's are equal.
const version = 1

// Operations of requests.
const (
	opHello  = 1 // a version, data the node's name; with it a userfaultfd, if there is one
	opWrite  = 2 // data
	opIoctl  = 3 // a request, b argument
	opMmap   = 4 // a offset, b length, c whether writable
	opMapped = 5 // a cookie, b address
	opClose  = 6
)

// Flags of replies.
const (
	flagFD        = 1 << iota // a descriptor comes with it
	flagClock                 // MapReply.Clock
	flagDoorbells             // MapReply.Watch
)

const (
	requestSize = 32
	replySize   = 40
)

type request struct {
	op      uint32
	a, b, c uint64
	data    []byte
}

var errShort = errors.New("shorter than a request")

func (r *request) decode(b []byte) error {
	if len(b) < requestSize {
		return errShort
	}
	e := binary.NativeEndian
	*r = request{op: e.Uint32(b), a: e.Uint64(b[8:]), b: e.Uint64(b[16:]), c: e.Uint64(b[24:]), data: b[requestSize:]}
	return nil
}

// reply has in value the cookie of a mapping.
type reply struct {
	errno, flags            uint32
	value, to, fdAt, offset uint64
}

func (r *reply) append(b []byte) []byte {
	e := binary.NativeEndian
	b = e.AppendUint32(b, r.errno)
	b = e.AppendUint32(b, r.flags)
	b = e.AppendUint64(b, r.value)
	b = e.AppendUint64(b, r.to)
	b = e.AppendUint64(b, r.fdAt)
	return e.AppendUint64(b, r.offset)
}
