package capture

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/gopacket/gopacket/layers"

	"github.com/sluice-rdma/sluice/roce"
)

// Lengths of the pseudo headers that captures put before a packet, in bytes.
const (
	nullBytes = 4  // address family
	sllBytes  = 16 // Linux cooked, version 1: of "any" interface
	sll2Bytes = 20 // version 2
)

// supported reports whether parse knows a link type.
func supported(link layers.LinkType) bool {
	switch link {
	case layers.LinkTypeEthernet, layers.LinkTypeNull, layers.LinkTypeLoop, layers.LinkTypeLinuxSLL, layers.LinkTypeLinuxSLL2,
		layers.LinkTypeRaw, layers.LinkTypeIPv4, layers.LinkTypeIPv6, 12, 14: // the last two are raw IP on some systems
		return true
	}
	return false
}

// parse finds the RoCEv2 packet in a record of a supported link type.
func parse(f *roce.Frame, rec *Record) error {
	err := parseLink(f, rec, rec.Data)
	if !errors.Is(err, roce.BadIPChecksum) {
		return err
	}
	// A sender that leaves the checksum to its interface shows 0. The record's data
	// belong to whoever captured them.
	b := bytes.Clone(rec.Data)
	ip := b[len(b)-len(network(rec, b)):]
	if binary.BigEndian.Uint16(ip[ipChecksum:]) != 0 {
		return err
	}
	binary.BigEndian.PutUint16(ip[ipChecksum:], ^roce.Fold(roce.Sum(0, ip[:roce.IPv4Bytes])))
	return parseLink(f, rec, b)
}

// ipChecksum is the offset of the checksum in IPv4's header.
const ipChecksum = 10

func parseLink(f *roce.Frame, rec *Record, b []byte) error {
	if rec.Link == layers.LinkTypeEthernet {
		return f.ParseEthernet(b)
	}
	return f.ParseIP(network(rec, b))
}

// network returns the IP packet in a record's bytes, nil if there is none.
func network(rec *Record, b []byte) []byte {
	switch rec.Link {
	case layers.LinkTypeEthernet:
		_, n, _ := roce.Ethernet(b).Payload()
		return b[min(n, len(b)):]
	case layers.LinkTypeNull, layers.LinkTypeLoop:
		return b[min(nullBytes, len(b)):]
	case layers.LinkTypeLinuxSLL:
		return cooked(b, sllBytes, 14)
	case layers.LinkTypeLinuxSLL2:
		return cooked(b, sll2Bytes, 0)
	}
	return b
}

// cooked returns the IP packet behind a cooked header whose EtherType is at an
// offset, and behind VLAN tags; nil if there is none.
func cooked(b []byte, header, etherTypeAt int) []byte {
	if len(b) < header {
		return nil
	}
	etherType, b := binary.BigEndian.Uint16(b[etherTypeAt:]), b[header:]
	for (etherType == roce.EtherTypeVLAN || etherType == roce.EtherTypeQinQ) && len(b) >= roce.VLANBytes {
		etherType, b = binary.BigEndian.Uint16(b[2:]), b[roce.VLANBytes:]
	}
	if etherType != roce.EtherTypeIPv4 && etherType != roce.EtherTypeIPv6 {
		return nil
	}
	return b
}
