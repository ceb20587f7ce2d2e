// What the v1model programs share besides headers and parser.

#ifndef SLUICE_V1MODEL_P4
#define SLUICE_V1MODEL_P4

// Nanoseconds in a tick of v1model's clock.
#define TICK_NS 1000

parser FrameParser(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start {
        transition parse_frame;
    }
#include "parser.p4"
}

// emit in the order of the wire.
control FrameDeparser(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.mac);
        pkt.emit(hdr.vlan);
#ifdef TAG_CSIG
        pkt.emit(hdr.wide);
        pkt.emit(hdr.wide_back);
        pkt.emit(hdr.compact);
        pkt.emit(hdr.compact_back);
#endif
#ifdef TAG_VALUE
        pkt.emit(hdr.tag);
        pkt.emit(hdr.tag_back);
#endif
        pkt.emit(hdr.ethertype);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.ipv6);
        pkt.emit(hdr.udp);
#ifdef WITH_INT
        pkt.emit(hdr.shim);
        pkt.emit(hdr.mine);
#include "emit_hops.p4"
#endif
        pkt.emit(hdr.bth);
    }
}

#ifndef WITH_INT
// Nothing that a checksum covers changes.
control NoChecksumVerified(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control NoChecksumUpdated(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}
#endif

#endif
