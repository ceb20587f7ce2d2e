// What the programs for Tofino share besides headers and parser: both parsers and
// both deparsers.

#ifndef SLUICE_TNA_P4
#define SLUICE_TNA_P4

parser FrameIngressParser(packet_in pkt, out headers_t hdr, out metadata_t meta,
                          out ingress_intrinsic_metadata_t ig_intr_md) {
#ifdef TNA_CHECKSUM
    Checksum() ipv4_checksum;
#endif

    state start {
        pkt.extract(ig_intr_md);
        pkt.advance(PORT_METADATA_SIZE);
        transition parse_frame;
    }
#include "parser.p4"
}

parser FrameEgressParser(packet_in pkt, out headers_t hdr, out metadata_t meta,
                         out egress_intrinsic_metadata_t eg_intr_md) {
#ifdef TNA_CHECKSUM
    Checksum() ipv4_checksum;
#endif

    state start {
        pkt.extract(eg_intr_md);
        transition parse_frame;
    }
#include "parser.p4"
}

control FrameIngressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t meta,
                             in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
#ifdef TNA_CHECKSUM
    Checksum() ipv4_checksum;
#endif

    apply {
#include "deparser_tna.p4"
    }
}

control FrameEgressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t meta,
                            in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
#ifdef TNA_CHECKSUM
    Checksum() ipv4_checksum;
#endif

    apply {
#include "deparser_tna.p4"
    }
}

#endif
