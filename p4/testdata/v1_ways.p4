// Every way that a packet may take through v1model, chosen by its first byte.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> what;
    bit<8> a;
    bit<8> b;
    bit<8> c;
}

struct headers_t {
    h_t h;
}

struct meta_t {
    @field_list(1)
    bit<8> kept;
    bit<8> lost;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        transition accept;
    }
}

control none(inout headers_t h, inout meta_t m) {
    apply { }
}

control ingress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        // What a resubmitted or recirculated packet brings with it.
        if (s.instance_type == 6 || s.instance_type == 4) {
            h.h.a = (bit<8>)s.instance_type;
            h.h.b = m.kept;
            h.h.c = m.lost;
        } else {
            m.kept = 0x77;
            m.lost = 0x88;
            if (h.h.what == 1) {
                h.h.b = 0xff; // is not kept
                resubmit_preserving_field_list(1);
            } else if (h.h.what == 2) {
                clone_preserving_field_list(CloneType.I2E, 7, 1);
                h.h.a = 0x55; // the clone has it as it came in
            } else if (h.h.what == 3) {
                s.mcast_grp = 9;
            } else if (h.h.what == 4) {
                mark_to_drop(s);
            } else if (h.h.what == 8) {
                clone(CloneType.I2E, 99); // no such session
            } else if (h.h.what == 10) {
                resubmit({ m.lost });
            }
        }
    }
}

control egress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (s.instance_type == 1 || s.instance_type == 2) {
            h.h.b = m.kept;
            h.h.c = m.lost;
        } else if (s.instance_type == 5) {
            h.h.a = (bit<8>)s.egress_rid;
            h.h.b = (bit<8>)s.egress_port;
        } else if (s.instance_type == 0) {
            if (h.h.what == 5) {
                h.h.a = 0x66; // the clone has it, too
                clone_preserving_field_list(CloneType.E2E, 7, 1);
            } else if (h.h.what == 6) {
                recirculate_preserving_field_list(1);
            } else if (h.h.what == 7) {
                truncate(3);
            } else if (h.h.what == 9) {
                mark_to_drop(s);
            }
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h.h);
    }
}

V1Switch(P(), none(), ingress(), egress(), none(), D()) main;
