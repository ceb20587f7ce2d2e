package uverbs

import (
	"encoding/binary"
	"syscall"
)

// VerbsIoctl is the request of the ioctl (RDMA_VERBS_IOCTL).
const VerbsIoctl = 0xc0181b01

// Sizes in bytes of the ioctl's header and of an attribute, and the most that both take.
const (
	CallHeaderBytes = 24
	AttrBytes       = 16
	maxCall         = 4096
)

// driverMlx5 is the driver's number (RDMA_DRIVER_MLX5).
const driverMlx5 = 1

// MethodID names a method of an object. Those of the driver's have the bit DriverNS.
type MethodID struct{ Object, Method uint16 }

// DriverNS is set in the numbers of the driver's objects, methods and attributes.
const DriverNS = 1 << 12

// Methods that the device has (enum uverbs_default_objects, mlx5_ib_objects).
var (
	MethodQueryPort     = MethodID{0, 2}
	MethodQueryGIDTable = MethodID{0, 5}
	MethodQueryGIDEntry = MethodID{0, 6}
	MethodQueryMR       = MethodID{7, 3}
	MethodAllocAsync    = MethodID{16, 0}
	MethodMlx5QueryPort = MethodID{0, DriverNS}
	MethodMlx5QueryPD   = MethodID{1, DriverNS}
	MethodMlx5AllocUAR  = MethodID{DriverNS | 8, DriverNS}
	MethodMlx5FreeUAR   = MethodID{DriverNS | 8, DriverNS | 1}
)

// AttrKind is the kind of an attribute's content.
type AttrKind uint8

// Kinds of attributes.
const (
	AttrIn     AttrKind = iota + 1 // a value, in the attribute itself or behind a pointer
	AttrOut                        // a pointer to where a value goes
	AttrObject                     // a handle
	AttrNew                        // a handle that the call returns
	AttrFD                         // a descriptor that the call returns
)

// AttrSpec is a method's specification of an attribute.
type AttrSpec struct {
	Kind     AttrKind
	Size     int // bytes of a value, at most 8 of AttrIn; 0 for any number
	Optional bool
}

// Spec is a method's attributes by number.
type Spec map[uint16]AttrSpec

// Specs are the methods' attributes.
var Specs = map[MethodID]Spec{
	MethodQueryPort: {0: {AttrIn, 1, false}, 1: {AttrOut, 48, false}},
	MethodQueryGIDTable: {
		0: {AttrIn, 8, false}, 1: {AttrIn, 4, true}, 2: {AttrOut, 0, false}, 3: {AttrOut, 8, false},
	},
	MethodQueryGIDEntry: {0: {AttrIn, 4, false}, 1: {AttrIn, 4, false}, 2: {AttrIn, 4, true}, 3: {AttrOut, 0, false}},
	MethodQueryMR: {
		0: {AttrObject, 0, false}, 1: {AttrOut, 4, false}, 2: {AttrOut, 4, false}, 3: {AttrOut, 8, false}, 4: {AttrOut, 8, true},
	},
	MethodAllocAsync:    {0: {AttrFD, 0, false}},
	MethodMlx5QueryPort: {DriverNS: {AttrIn, 4, false}, DriverNS | 1: {AttrOut, 0, false}},
	MethodMlx5QueryPD:   {DriverNS: {AttrObject, 0, false}, DriverNS | 1: {AttrOut, 4, false}},
	MethodMlx5AllocUAR: {
		DriverNS: {AttrNew, 0, false}, DriverNS | 1: {AttrIn, 1, false}, DriverNS | 2: {AttrOut, 8, false}, DriverNS | 3: {AttrOut, 4, false},
		DriverNS | 4: {AttrOut, 4, false},
	},
	MethodMlx5FreeUAR: {DriverNS: {AttrObject, 0, false}},
}

// Attr is an attribute of a call.
type Attr struct {
	ID, Len, Flags uint16
	Elem, _        uint8
	Data           uint64 // the value, the handle, or a pointer to Len bytes
}

// Flags of Attr.
const (
	attrMandatory   = 1 << 0
	AttrValidOutput = 1 << 1
)

// Call is an ioctl taken apart.
type Call struct {
	MethodID
	attrs []Attr
	spec  Spec
}

// CallBytes returns how long the ioctl is whose header b is. It fails as the kernel does.
func CallBytes(b []byte) (int, syscall.Errno) {
	le := binary.LittleEndian
	length, attrs := int(le.Uint16(b)), int(le.Uint16(b[6:]))
	switch {
	case length > maxCall, length != CallHeaderBytes+attrs*AttrBytes:
		return 0, syscall.EINVAL
	case le.Uint64(b[8:]) != 0, le.Uint32(b[20:]) != 0:
		return 0, syscall.EPROTONOSUPPORT
	}
	return length, 0
}

// ParseCall takes apart an ioctl of CallBytes. It fails as the kernel does: with
// EPROTONOSUPPORT for a method, or an attribute that has to be understood, that there is
// not, EINVAL for attributes that are not as the method has them.
func ParseCall(b []byte) (*Call, syscall.Errno) {
	le := binary.LittleEndian
	c := &Call{MethodID: MethodID{le.Uint16(b[2:]), le.Uint16(b[4:])}}
	if le.Uint32(b[16:]) != driverMlx5 {
		return nil, syscall.EINVAL
	}
	if c.spec = Specs[c.MethodID]; c.spec == nil {
		return nil, syscall.EPROTONOSUPPORT
	}
	seen := map[uint16]bool{}
	for b = b[CallHeaderBytes:]; len(b) >= AttrBytes; b = b[AttrBytes:] {
		a := Attr{ID: le.Uint16(b), Len: le.Uint16(b[2:]), Flags: le.Uint16(b[4:]), Elem: b[6], Data: le.Uint64(b[8:])}
		s, known := c.spec[a.ID]
		if !known {
			if a.Flags&attrMandatory != 0 {
				return nil, syscall.EPROTONOSUPPORT
			}
			a.ID = noAttr
		} else if seen[a.ID] || !s.takes(&a) || a.Flags&^(attrMandatory|AttrValidOutput) != 0 {
			return nil, syscall.EINVAL
		}
		seen[a.ID] = known
		c.attrs = append(c.attrs, a)
	}
	for id, s := range c.spec {
		if !s.Optional && !seen[id] {
			return nil, syscall.EINVAL
		}
	}
	return c, 0
}

// noAttr is the number of an attribute that the method does not have.
const noAttr = 0xffff

func (s AttrSpec) takes(a *Attr) bool {
	switch s.Kind {
	case AttrIn: // in the attribute itself, as all that the device takes is that short
		return a.Elem == 0 && int(a.Len) >= s.Size && a.Len <= 8
	case AttrOut:
		return a.Elem == 0 && int(a.Len) >= max(s.Size, 1)
	}
	return a.Len == 0
}

// Find returns the index of an attribute among those of the call, and the attribute;
// nil if the call has none.
func (c *Call) Find(id uint16) (int, *Attr) {
	for i := range c.attrs {
		if c.attrs[i].ID == id {
			return i, &c.attrs[i]
		}
	}
	return 0, nil
}

// In is the value, or the handle, of an attribute; 0 if the call has none.
func (c *Call) In(id uint16) uint64 {
	_, a := c.Find(id)
	if a == nil {
		return 0
	}
	if n := c.spec[id].Size; n > 0 && n < 8 {
		return a.Data & (1<<(8*n) - 1)
	}
	return a.Data
}

// GIDEntry is an entry of a GID table.
type GIDEntry struct {
	GID                         [16]byte
	Index, Port, Type, NetIndex uint32
}

// GIDTypeRoCEv2 is GIDEntry.Type of all that the device has.
const GIDTypeRoCEv2 = 2

// QueryPortExResp is the answer of MethodQueryPort.
type QueryPortExResp struct {
	QueryPortResp
	CapFlags2 uint16
	_         [6]byte
}

// Mlx5PortBytes is the size of MethodMlx5QueryPort's answer, which is 0 for a port that
// does not forward for others.
const Mlx5PortBytes = 40

// Types of MethodMlx5AllocUAR.
const (
	UARBlueFlame = 0
	UARNoCombine = 1
)
