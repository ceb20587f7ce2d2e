package wirestamp

import "encoding/binary"

const eventSize = 24

// decode reads a record of the program.
func (e *stamperEvent) decode(b []byte) {
	_ = b[eventSize-1]
	e.Ns, e.Id = binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint32(b[8:])
	e.Psn, e.Length = binary.NativeEndian.Uint32(b[12:]), binary.NativeEndian.Uint32(b[16:])
	e.Opcode, e.Syndrome, e.Arriving = b[20], b[21], b[22]
}
