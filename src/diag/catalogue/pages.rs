//! The table of codes. A page is added here and as a file, `docs/errors/<area>/<name>.md`; a test holds both against the code.

use super::{Area, Page};

/// Lists the areas with what they are about and the names of their codes.
macro_rules! pages {
    ($($about:literal $area:ident { $($name:ident)* })*) => {
        /// Every area, by name.
        pub const AREAS: &[Area] = &[$(Area {
            name: stringify!($area),
            about: $about,
            pages: &[$(Page {
                code: concat!("step::", stringify!($area), "::", stringify!($name)),
                text: include_str!(concat!("../../../docs/errors/", stringify!($area), "/", stringify!($name), ".md")),
            }),*],
        }),*];
    };
}

pages! {
    "collectives between ranks"
    comm {
        aborted
        argument
        capacity
        group
        mismatch
        timeout
    }

    "files of text and their tokens"
    data {
        column
        config
        empty
        format
        io
        json
        no_files
        order
        parquet
        separator
        thread
        tokenizer
        too_small
        utf8
        vocab
        weight
    }

    "`stepc explain`"
    explain {
        ambiguous
        unknown
    }

    "architectures"
    model {
        kv_heads
        names_expert
        names_layer
        rope_fraction
        rope_scaling
        top_k
        unknown_block
    }

    "`stepc new`"
    new {
        config
        unknown_model
        unsupported
    }

    "files that are written"
    output {
        exists
        unwritable
    }

    "the division of work over devices"
    parallel {
        ep_dense
        ep_devices
        ep_experts
        fsdp_devices
        precision
    }

    "compiled plans"
    plan {
        invalid
        unreadable
        unwritable
    }

    "element types"
    precision {
        cpu
    }

    "blocks, items, profiles and files"
    recipe {
        ambiguous
        base_cycle
        devices
        duplicate
        missing
        nameless
        no_recipe
        require
        set_layer
        several_recipes
        stray_if
        unknown_block
        unknown_device
        unknown_item
        unknown_key
        unknown_kind
        unknown_profile
        unreadable
        unused_let
        use_cycle
        use_not_found
    }

    "where a recipe can run"
    run {
        no_target
    }

    "training"
    runtime {
        internal
        memory
        metrics
        not_finite
        signal
        threads
    }

    "text that cannot be read"
    syntax {
        assignment
        chained_comparison
        comment
        control_character
        escape
        expected
        foreign_format
        internal
        lookalike
        misplaced
        number_range
        operator
        quotes
        semicolon
        separator
        stray
        too_deep
        unclosed
        unclosed_comment
        unclosed_string
        unknown_kind
    }

    "batches, learning rates, checkpoints"
    train {
        checkpoint_every
        global_batch
        min_lr
        stage
        warmup
    }

    "expressions and their values"
    value {
        ambiguous
        arguments
        bounds
        cycle
        division_by_zero
        index
        mismatch
        overflow
        too_deep
        too_long
        unknown_function
        unknown_name
        unknown_unit
        unknown_word
    }

    "checkpoints"
    weights {
        dtype
        file
        index
        missing
        open
        read
        shape
        unused
        write
    }

    "`stepc check --why`"
    why {
        unknown_path
    }
}
