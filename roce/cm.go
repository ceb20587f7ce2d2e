package roce

import (
	"fmt"
	"math/bits"
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// The messages of communication management (IBA 12.6), each with Decode, which
// reads a MAD of its attribute, and Put, which writes one. After Decode, private
// data and the like share the MAD's memory and have their full room, zeros
// included. Put writes the first MADBytes of b, which must be there; its error
// names the field that does not fit.

// Room for private data in bytes.
const (
	REQPrivateBytes  = 92
	MRAPrivateBytes  = 222
	REJPrivateBytes  = 148
	REPPrivateBytes  = 196
	RTUPrivateBytes  = 224
	DREQPrivateBytes = 220
	DREPPrivateBytes = 224
	REJInfoBytes     = 72 // additional reject information
)

// GID is a port's global identifier: on RoCEv2 its IPv6 address, or its IPv4
// address mapped to IPv6.
type GID [16]byte

// GIDOf returns the GID of an IP address.
func GIDOf(a netip.Addr) GID { return a.As16() }

// Addr returns the address that g represents, IPv4 if g is an IPv4-mapped one.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// CMPath is one of the two paths of a REQ. LIDs are 0xffff and the packet rate
// 0 where RoCE sends them; timeouts are exponents: 4.096 us * 2^n.
type CMPath struct {
	LocalLID, RemoteLID uint16
	LocalGID, RemoteGID GID
	FlowLabel           uint32 // 20 bits
	PacketRate          uint8  // 6 bits
	TrafficClass        uint8
	HopLimit            uint8
	SL                  uint8 // service level, 4 bits
	SubnetLocal         bool
	LocalAckTimeout     uint8 // 5 bits
}

func (p *CMPath) move(f *fields, off int, which string) {
	f.in = which
	f.u16(&p.LocalLID, off)
	f.u16(&p.RemoteLID, off+2)
	f.gid(&p.LocalGID, off+4)
	f.gid(&p.RemoteGID, off+20)
	p.FlowLabel = uint32(f.part("FlowLabel", uint64(p.FlowLabel), off+36, 3, 0, 20))
	f.u8("PacketRate", &p.PacketRate, off+39, 2, 6)
	f.u8("", &p.TrafficClass, off+40, 0, 8)
	f.u8("", &p.HopLimit, off+41, 0, 8)
	f.u8("SL", &p.SL, off+42, 0, 4)
	f.flag(&p.SubnetLocal, off+42, 4)
	f.u8("LocalAckTimeout", &p.LocalAckTimeout, off+43, 0, 5)
	f.in = ""
}

// Transport service types of a REQ.
const (
	TransportRC = 0
	TransportUC = 1
)

// REQ asks for a connection (IBA 12.6.5). "Local" is the sender.
type REQ struct {
	LocalCommID        uint32
	ServiceID          uint64
	LocalCAGUID        uint64
	LocalQKey          uint32
	LocalQPN           uint32 // 24 bits
	ResponderResources uint8  // READs and atomics that the sender takes at once
	LocalEECN          uint32 // 24 bits
	InitiatorDepth     uint8  // READs and atomics that the sender issues at once
	RemoteEECN         uint32 // 24 bits
	RemoteCMTimeout    uint8  // 5 bits: how long the receiver may take to answer, 4.096 us * 2^n
	TransportType      uint8  // 2 bits: TransportRC or TransportUC
	FlowControl        bool   // the sender's receive queue gives credits
	StartingPSN        units.PSN
	LocalCMTimeout     uint8 // 5 bits: how long the sender takes to answer
	RetryCount         uint8 // 3 bits
	PKey               uint16
	PathMTU            uint8 // 4 bits, coded: MTUCode
	RDCExists          bool
	RNRRetryCount      uint8 // 3 bits; 7 is without end
	MaxCMRetries       uint8 // 4 bits
	SRQ                bool
	ExtendedTransport  uint8 // 3 bits
	Primary, Alternate CMPath
	Private            []byte // at most REQPrivateBytes; rdma_cm begins it with an IPCM
}

func (r *REQ) move(f *fields) {
	f.u32(&r.LocalCommID, 0)
	f.u64(&r.ServiceID, 8)
	f.u64(&r.LocalCAGUID, 16)
	f.u32(&r.LocalQKey, 28)
	f.u24("LocalQPN", &r.LocalQPN, 32)
	f.u8("", &r.ResponderResources, 35, 0, 8)
	f.u24("LocalEECN", &r.LocalEECN, 36)
	f.u8("", &r.InitiatorDepth, 39, 0, 8)
	f.u24("RemoteEECN", &r.RemoteEECN, 40)
	f.u8("RemoteCMTimeout", &r.RemoteCMTimeout, 43, 0, 5)
	f.u8("TransportType", &r.TransportType, 43, 5, 2)
	f.flag(&r.FlowControl, 43, 7)
	f.psn("StartingPSN", &r.StartingPSN, 44)
	f.u8("LocalCMTimeout", &r.LocalCMTimeout, 47, 0, 5)
	f.u8("RetryCount", &r.RetryCount, 47, 5, 3)
	f.u16(&r.PKey, 48)
	f.u8("PathMTU", &r.PathMTU, 50, 0, 4)
	f.flag(&r.RDCExists, 50, 4)
	f.u8("RNRRetryCount", &r.RNRRetryCount, 50, 5, 3)
	f.u8("MaxCMRetries", &r.MaxCMRetries, 51, 0, 4)
	f.flag(&r.SRQ, 51, 4)
	f.u8("ExtendedTransport", &r.ExtendedTransport, 51, 5, 3)
	r.Primary.move(f, 52, "Primary.")
	r.Alternate.move(f, 96, "Alternate.")
	f.data("Private", &r.Private, 140, REQPrivateBytes)
}

// Decode reads a REQ.
func (r *REQ) Decode(m MAD) error {
	f, err := fieldsOf(m, AttrREQ)
	if err == nil {
		r.move(&f)
	}
	return err
}

// Put writes a REQ with the transaction ID tid.
func (r *REQ) Put(b []byte, tid uint64) (MAD, error) {
	f := newMAD(b, AttrREQ, tid)
	r.move(&f)
	return f.mad, f.err
}

// MTUCode returns the code of a path MTU in a REQ, 1 for 256 bytes to 5 for 4096,
// or 0 for any other.
func MTUCode(mtu ib.MTU) uint8 {
	if !mtu.Valid() {
		return 0
	}
	return uint8(bits.Len(uint(mtu)) - 8)
}

// MTUOf returns the path MTU with a code, or 0 if no MTU has that code.
func MTUOf(code uint8) ib.MTU {
	if code < 1 || code > 5 {
		return 0
	}
	return ib.MTU(128 << code)
}

// REP accepts a connection (IBA 12.6.8).
type REP struct {
	LocalCommID, RemoteCommID uint32
	LocalQKey                 uint32
	LocalQPN                  uint32 // 24 bits
	LocalEECN                 uint32 // 24 bits
	StartingPSN               units.PSN
	ResponderResources        uint8
	InitiatorDepth            uint8
	TargetAckDelay            uint8 // 5 bits, 4.096 us * 2^n
	FailoverAccepted          uint8 // 2 bits
	FlowControl               bool
	RNRRetryCount             uint8 // 3 bits
	SRQ                       bool
	LocalCAGUID               uint64
	Private                   []byte // at most REPPrivateBytes
}

func (r *REP) move(f *fields) {
	f.u32(&r.LocalCommID, 0)
	f.u32(&r.RemoteCommID, 4)
	f.u32(&r.LocalQKey, 8)
	f.u24("LocalQPN", &r.LocalQPN, 12)
	f.u24("LocalEECN", &r.LocalEECN, 16)
	f.psn("StartingPSN", &r.StartingPSN, 20)
	f.u8("", &r.ResponderResources, 24, 0, 8)
	f.u8("", &r.InitiatorDepth, 25, 0, 8)
	f.u8("TargetAckDelay", &r.TargetAckDelay, 26, 0, 5)
	f.u8("FailoverAccepted", &r.FailoverAccepted, 26, 5, 2)
	f.flag(&r.FlowControl, 26, 7)
	f.u8("RNRRetryCount", &r.RNRRetryCount, 27, 0, 3)
	f.flag(&r.SRQ, 27, 3)
	f.u64(&r.LocalCAGUID, 28)
	f.data("Private", &r.Private, 36, REPPrivateBytes)
}

// Decode reads a REP.
func (r *REP) Decode(m MAD) error {
	f, err := fieldsOf(m, AttrREP)
	if err == nil {
		r.move(&f)
	}
	return err
}

// Put writes a REP with the transaction ID tid, that of the REQ.
func (r *REP) Put(b []byte, tid uint64) (MAD, error) {
	f := newMAD(b, AttrREP, tid)
	r.move(&f)
	return f.mad, f.err
}

// RTU says that the connection is ready to use (IBA 12.6.9).
type RTU struct {
	LocalCommID, RemoteCommID uint32
	Private                   []byte // at most RTUPrivateBytes
}

func (r *RTU) move(f *fields) {
	f.u32(&r.LocalCommID, 0)
	f.u32(&r.RemoteCommID, 4)
	f.data("Private", &r.Private, 8, RTUPrivateBytes)
}

// Decode reads an RTU.
func (r *RTU) Decode(m MAD) error {
	f, err := fieldsOf(m, AttrRTU)
	if err == nil {
		r.move(&f)
	}
	return err
}

// Put writes an RTU with the transaction ID tid, that of the REQ.
func (r *RTU) Put(b []byte, tid uint64) (MAD, error) {
	f := newMAD(b, AttrRTU, tid)
	r.move(&f)
	return f.mad, f.err
}

// DREQ asks to release a connection (IBA 12.6.10).
type DREQ struct {
	LocalCommID, RemoteCommID uint32
	RemoteQPN                 uint32 // 24 bits: the receiver's queue pair
	Private                   []byte // at most DREQPrivateBytes
}

func (r *DREQ) move(f *fields) {
	f.u32(&r.LocalCommID, 0)
	f.u32(&r.RemoteCommID, 4)
	f.u24("RemoteQPN", &r.RemoteQPN, 8)
	f.data("Private", &r.Private, 12, DREQPrivateBytes)
}

// Decode reads a DREQ.
func (r *DREQ) Decode(m MAD) error {
	f, err := fieldsOf(m, AttrDREQ)
	if err == nil {
		r.move(&f)
	}
	return err
}

// Put writes a DREQ with the transaction ID tid.
func (r *DREQ) Put(b []byte, tid uint64) (MAD, error) {
	f := newMAD(b, AttrDREQ, tid)
	r.move(&f)
	return f.mad, f.err
}

// DREP answers a DREQ (IBA 12.6.11).
type DREP struct {
	LocalCommID, RemoteCommID uint32
	Private                   []byte // at most DREPPrivateBytes
}

func (r *DREP) move(f *fields) {
	f.u32(&r.LocalCommID, 0)
	f.u32(&r.RemoteCommID, 4)
	f.data("Private", &r.Private, 8, DREPPrivateBytes)
}

// Decode reads a DREP.
func (r *DREP) Decode(m MAD) error {
	f, err := fieldsOf(m, AttrDREP)
	if err == nil {
		r.move(&f)
	}
	return err
}

// Put writes a DREP with the transaction ID tid, that of the DREQ.
func (r *DREP) Put(b []byte, tid uint64) (MAD, error) {
	f := newMAD(b, AttrDREP, tid)
	r.move(&f)
	return f.mad, f.err
}

// Which message an MRA acknowledges or a REJ rejects.
const (
	AnswersREQ  = 0
	AnswersREP  = 1
	AnswersNone = 2 // of a REJ: no message, a timeout for instance; of an MRA: a LAP
)

// MRA says that the answer to a message will take longer (IBA 12.6.6).
type MRA struct {
	LocalCommID, RemoteCommID uint32
	Message                   uint8  // 2 bits: AnswersREQ or AnswersREP
	ServiceTimeout            uint8  // 5 bits, 4.096 us * 2^n from now
	Private                   []byte // at most MRAPrivateBytes
}

func (r *MRA) move(f *fields) {
	f.u32(&r.LocalCommID, 0)
	f.u32(&r.RemoteCommID, 4)
	f.u8("Message", &r.Message, 8, 0, 2)
	f.u8("ServiceTimeout", &r.ServiceTimeout, 9, 0, 5)
	f.data("Private", &r.Private, 10, MRAPrivateBytes)
}

// Decode reads an MRA.
func (r *MRA) Decode(m MAD) error {
	f, err := fieldsOf(m, AttrMRA)
	if err == nil {
		r.move(&f)
	}
	return err
}

// Put writes an MRA with the transaction ID tid, that of the message acknowledged.
func (r *MRA) Put(b []byte, tid uint64) (MAD, error) {
	f := newMAD(b, AttrMRA, tid)
	r.move(&f)
	return f.mad, f.err
}

// REJ refuses or gives up a connection (IBA 12.6.7).
type REJ struct {
	LocalCommID, RemoteCommID uint32
	Message                   uint8 // 2 bits: AnswersREQ, AnswersREP or AnswersNone
	InfoLength                uint8 // 7 bits: how many bytes of Info count
	Reason                    RejectReason
	Info                      []byte // at most REJInfoBytes
	Private                   []byte // at most REJPrivateBytes
}

func (r *REJ) move(f *fields) {
	f.u32(&r.LocalCommID, 0)
	f.u32(&r.RemoteCommID, 4)
	f.u8("Message", &r.Message, 8, 0, 2)
	f.u8("InfoLength", &r.InfoLength, 9, 0, 7)
	f.u16((*uint16)(&r.Reason), 10)
	f.data("Info", &r.Info, 12, REJInfoBytes)
	f.data("Private", &r.Private, 84, REJPrivateBytes)
}

// Decode reads a REJ.
func (r *REJ) Decode(m MAD) error {
	f, err := fieldsOf(m, AttrREJ)
	if err == nil {
		r.move(&f)
	}
	return err
}

// Put writes a REJ with the transaction ID tid, that of the message rejected.
func (r *REJ) Put(b []byte, tid uint64) (MAD, error) {
	f := newMAD(b, AttrREJ, tid)
	r.move(&f)
	return f.mad, f.err
}

// RejectReason says why a connection was refused (IBA 12.6.7.2).
type RejectReason uint16

// Reasons that apply to RC and UC over RoCE.
const (
	RejNoQP                 RejectReason = 1
	RejNoResources          RejectReason = 3
	RejTimeout              RejectReason = 4
	RejUnsupported          RejectReason = 5
	RejInvalidCommID        RejectReason = 6
	RejInvalidCommInstance  RejectReason = 7
	RejInvalidServiceID     RejectReason = 8
	RejInvalidTransport     RejectReason = 9
	RejStaleConnection      RejectReason = 10
	RejInvalidGID           RejectReason = 12
	RejInvalidLID           RejectReason = 13
	RejInvalidSL            RejectReason = 14
	RejInvalidTrafficClass  RejectReason = 15
	RejInvalidHopLimit      RejectReason = 16
	RejInvalidPacketRate    RejectReason = 17
	RejInvalidMTU           RejectReason = 26
	RejTooFewRespResources  RejectReason = 27
	RejConsumer             RejectReason = 28 // the application rejected the connection
	RejInvalidRNRRetry      RejectReason = 29
	RejDuplicateCommID      RejectReason = 30
	RejInvalidClassVersion  RejectReason = 31
	RejInvalidFlowLabel     RejectReason = 32
	RejVendorOptionNotKnown RejectReason = 35
)

var rejectReasons = map[RejectReason]string{
	RejNoQP: "no QP available", RejNoResources: "no resources", RejTimeout: "timeout", RejUnsupported: "unsupported request",
	RejInvalidCommID: "invalid communication ID", RejInvalidCommInstance: "invalid communication instance",
	RejInvalidServiceID: "invalid service ID: nothing listens there", RejInvalidTransport: "invalid transport service type",
	RejStaleConnection: "stale connection", RejInvalidGID: "invalid GID", RejInvalidLID: "invalid LID",
	RejInvalidSL: "invalid service level", RejInvalidTrafficClass: "invalid traffic class",
	RejInvalidHopLimit: "invalid hop limit", RejInvalidPacketRate: "invalid packet rate", RejInvalidMTU: "invalid path MTU",
	RejTooFewRespResources: "insufficient responder resources", RejConsumer: "refused by the application",
	RejInvalidRNRRetry: "invalid RNR retry count", RejDuplicateCommID: "duplicate local communication ID",
	RejInvalidClassVersion: "invalid class version", RejInvalidFlowLabel: "invalid flow label",
	RejVendorOptionNotKnown: "vendor option not supported",
}

func (r RejectReason) String() string {
	if s, ok := rejectReasons[r]; ok {
		return s
	}
	return fmt.Sprintf("RejectReason(%d)", uint16(r))
}
