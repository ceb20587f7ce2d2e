// An egress parser of 27 + 14 + 8 + 112 = 161 bytes.
#define EGRESS_PARSER
#include "frame.p4"

header long_t {
    bit<896> bytes;
}

struct deep_t {
    mac_t   mac;
    value_t value;
    long_t  long;
}

parser EgressParser(packet_in pkt, out deep_t hdr, out metadata_t meta, out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        pkt.extract(eg_intr_md);
        pkt.extract(hdr.mac);
        transition select(hdr.mac.ether_type) {
            0x88b5: parse_value;
            default: accept;
        }
    }

    state parse_value {
        pkt.extract(hdr.value);
        transition select(hdr.value.kind) {
            1: parse_long;
            default: accept;
        }
    }

    state parse_long { // warns: state parse_long of parser EgressParser reads 161 bytes
        pkt.extract(hdr.long);
        transition accept;
    }
}

control DeepEgress(inout deep_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md,
                   in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
                   inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
                   inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    apply { }
}

control DeepDeparser(packet_out pkt, inout deep_t hdr, in metadata_t meta,
                     in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    apply {
        pkt.emit(hdr);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), DeepEgress(), DeepDeparser()) pipe;

Switch(pipe) main;
