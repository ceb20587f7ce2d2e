// What the programs for each rule share: headers, an ingress that sends packets to the
// port's pair, deparsers. A program with EGRESS_PARSER brings a parser of its own.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

header mac_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header value_t {
    bit<16> a;
    bit<16> b;
    bit<3>  kind;
    bit<5>  code;
    bit<20> wide;
    bit<4>  low;
}

header block_t {
    bit<32> word;
    bit<32> more;
}

struct headers_t {
    mac_t      mac;
    value_t    value;
    block_t[4] blocks;
}

struct metadata_t {
    bit<16> x;
    bit<16> y;
    bit<32> z;
    bit<8>  small;
}

parser IngressParser(packet_in pkt, out headers_t hdr, out metadata_t meta, out ingress_intrinsic_metadata_t ig_intr_md) {
    state start {
        pkt.extract(ig_intr_md);
        pkt.advance(PORT_METADATA_SIZE);
        transition accept;
    }
}

control Ingress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t ig_intr_md,
                in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    apply {
        ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port ^ 1;
    }
}

control IngressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    apply { }
}

#ifndef EGRESS_PARSER
parser EgressParser(packet_in pkt, out headers_t hdr, out metadata_t meta, out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        pkt.extract(eg_intr_md);
        pkt.extract(hdr.mac);
        pkt.extract(hdr.value);
        transition accept;
    }
}
#endif

control EgressDeparser(packet_out pkt, inout headers_t hdr, in metadata_t meta,
                       in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    apply {
        pkt.emit(hdr);
    }
}

#ifndef OWN_EGRESS
control Egress(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    apply { }
}
#endif
