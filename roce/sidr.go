package roce

import "fmt"

// Service ID resolution (IBA 12.11): how a program asks for the queue pair of datagrams
// that serves a service ID.

// Room for private data and the like in bytes.
const (
	SIDRREQPrivateBytes = 216
	SIDRREPPrivateBytes = 136
	SIDRREPInfoBytes    = 72
)

// SIDRREQ asks who serves a service ID (IBA 12.11.1).
type SIDRREQ struct {
	RequestID uint32
	PKey      uint16
	ServiceID uint64
	Private   []byte // at most SIDRREQPrivateBytes; rdma_cm begins it with an IPCM
}

func (r *SIDRREQ) move(f *fields) {
	f.u32(&r.RequestID, 0)
	f.u16(&r.PKey, 4)
	f.u64(&r.ServiceID, 8)
	f.data("Private", &r.Private, 16, SIDRREQPrivateBytes)
}

// Decode reads a SIDR_REQ.
func (r *SIDRREQ) Decode(m MAD) error {
	f, err := fieldsOf(m, AttrSIDRREQ)
	if err == nil {
		r.move(&f)
	}
	return err
}

// Put writes a SIDR_REQ with the transaction ID tid.
func (r *SIDRREQ) Put(b []byte, tid uint64) (MAD, error) {
	f := newMAD(b, AttrSIDRREQ, tid)
	r.move(&f)
	return f.mad, f.err
}

// SIDRREP answers a SIDR_REQ (IBA 12.11.2).
type SIDRREP struct {
	RequestID  uint32
	Status     SIDRStatus
	InfoLength uint8  // how many bytes of Info count
	QPN        uint32 // 24 bits
	ServiceID  uint64
	QKey       uint32
	Info       []byte // at most SIDRREPInfoBytes
	Private    []byte // at most SIDRREPPrivateBytes
}

func (r *SIDRREP) move(f *fields) {
	f.u32(&r.RequestID, 0)
	f.u8("", (*uint8)(&r.Status), 4, 0, 8)
	f.u8("", &r.InfoLength, 5, 0, 8)
	f.u24("QPN", &r.QPN, 8)
	f.u64(&r.ServiceID, 12)
	f.u32(&r.QKey, 20)
	f.data("Info", &r.Info, 24, SIDRREPInfoBytes)
	f.data("Private", &r.Private, 96, SIDRREPPrivateBytes)
}

// Decode reads a SIDR_REP.
func (r *SIDRREP) Decode(m MAD) error {
	f, err := fieldsOf(m, AttrSIDRREP)
	if err == nil {
		r.move(&f)
	}
	return err
}

// Put writes a SIDR_REP with the transaction ID tid, that of the SIDR_REQ.
func (r *SIDRREP) Put(b []byte, tid uint64) (MAD, error) {
	f := newMAD(b, AttrSIDRREP, tid)
	r.move(&f)
	return f.mad, f.err
}

// SIDRStatus says how a service ID was resolved (IBA 12.11.2).
type SIDRStatus uint8

// Statuses.
const (
	SIDRSuccess     SIDRStatus = 0
	SIDRUnsupported SIDRStatus = 1 // nobody serves the service ID
	SIDRReject      SIDRStatus = 2
	SIDRNoQP        SIDRStatus = 3
	SIDRRedirect    SIDRStatus = 4
	SIDRVersion     SIDRStatus = 5
)

var sidrStatuses = [...]string{
	"success", "service ID not supported", "rejected by the service provider", "no QP available", "redirect", "version not supported",
}

func (s SIDRStatus) String() string {
	if int(s) < len(sidrStatuses) {
		return sidrStatuses[s]
	}
	return fmt.Sprintf("SIDRStatus(%d)", uint8(s))
}
