// One action would need several stages.
#define OWN_EGRESS
#include "frame.p4"

control Egress(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md,
               in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
               inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
               inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    action twice() {
        hdr.value.b = (hdr.value.a + 3) ^ hdr.value.b; // warns: another one computes in the same statement
    }

    table t {
        key = { hdr.mac.dst : exact; }
        actions = { twice; }
        default_action = twice();
    }

    apply {
        meta.x = hdr.value.a - 7;
        meta.x = min(meta.x, hdr.value.b); // warns: another one computes in line 20
        hdr.value.a = meta.x;
        t.apply();
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
