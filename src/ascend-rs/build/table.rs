//! The tables as rows.

/// One exported C function.
pub struct Function {
    /// Where it is defined, in words: `libascendcl.so (>=9.x also libacl_rt.so)`.
    pub library: &'static str,
    pub name: &'static str,
    /// C spelling.
    pub returns: &'static str,
    /// Type and name of each parameter, C spelling.
    pub parameters: Vec<(&'static str, &'static str)>,
    pub header: &'static str,
    pub note: &'static str,
}

/// A value of an enum, a macro, or a fact about a struct.
pub struct Constant {
    pub kind: &'static str,
    /// The enum or struct; empty for a macro.
    pub of: &'static str,
    pub name: &'static str,
    pub value: &'static str,
    /// Where a struct has this size or offset.
    pub release: &'static str,
}

impl Constant {
    /// Its value, or `None` where releases differ.
    pub fn number(&self) -> Option<i64> {
        match self.value.strip_prefix("0x") {
            Some(hexadecimal) => i64::from_str_radix(hexadecimal, 16).ok(),
            None => self.value.parse().ok(),
        }
    }
}

fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().skip(1).filter(|line| !line.is_empty()).map(|line| line.split('\t').collect())
}

pub fn functions(text: &'static str) -> Vec<Function> {
    let function = |row: Vec<&'static str>| {
        let [library, name, returns, types, header, _, names, ..] = row[..] else {
            panic!("a row of {} columns: {row:?}", row.len());
        };
        let types: Vec<_> =
            types.split(';').map(str::trim).filter(|c| *c != "void" && !c.is_empty()).collect();
        let names: Vec<_> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        assert_eq!(types.len(), names.len(), "{name}: as many names as types");
        let parameters = types.into_iter().zip(names).collect();
        Function { library, name, returns, parameters, header, note: row.get(8).copied().unwrap_or_default() }
    };
    rows(text).map(function).collect()
}

pub fn constants(text: &'static str) -> Vec<Constant> {
    let constant = |row: Vec<&'static str>| {
        let [kind, of, name, value, release] = row[..] else {
            panic!("a row of {} columns: {row:?}", row.len())
        };
        Constant { kind, of, name, value, release }
    };
    rows(text).map(constant).collect()
}
