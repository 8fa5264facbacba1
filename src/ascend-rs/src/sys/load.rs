//! Finding functions in the libraries that are installed, each when it is first called: one that is missing is an error of
//! the call, and no other call suffers.

use libloading::os::unix::{Library as Handle, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CStr, c_void};
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What a function belongs to, and so which files it is looked for in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// Devices, streams, events, memory.
    Runtime,
    /// Descriptors of tensors, and the aclnn operators.
    Operators,
    /// HCCL.
    Collectives,
}

impl Library {
    /// File names in the order of the search: operators of one's own first, then the split libraries of CANN 8.5 and later, then
    /// those of earlier releases.
    pub fn files(self) -> &'static [&'static str] {
        match self {
            Library::Runtime => &["libacl_rt.so", "libascendcl.so"],
            Library::Operators => &[
                "libcust_opapi.so",
                "libopapi_math.so",
                "libopapi_nn.so",
                "libopapi_transformer.so",
                "libopapi_cv.so",
                "libopapi.so",
                "libaclnn_ops_infer.so",
                "libaclnn_ops_train.so",
                "libaclnn_math.so",
                "libaclnn_rand.so",
                "libnnopbase.so",
            ],
            Library::Collectives => &["libhccl.so", "libhcomm.so"],
        }
    }

    fn opened(self) -> &'static [Handle] {
        static OPENED: [OnceLock<Vec<Handle>>; 3] = [const { OnceLock::new() }; 3];
        OPENED[self as usize].get_or_init(|| {
            let mut split = false;
            let mut opened = Vec::new();
            for file in self.files() {
                // The one library of earlier releases must not be mixed with those that replace it.
                if split && (file.starts_with("libopapi.") || file.starts_with("libaclnn_")) {
                    continue;
                }
                if let Some(handle) = open(self, file) {
                    split |= file.starts_with("libopapi_");
                    opened.push(handle);
                }
            }
            opened
        })
    }

    /// The files of this library that are there.
    pub fn found(self) -> usize {
        self.opened().len()
    }
}

/// Folders that `set_env.sh` of the toolkit names; the loader's own search (`LD_LIBRARY_PATH`) comes behind them.
fn folders(file: &str) -> Vec<PathBuf> {
    let listed = |variable: &str| {
        std::env::var_os(variable).map(|list| std::env::split_paths(&list).collect::<Vec<_>>())
    };
    if file == "libcust_opapi.so" {
        let own = listed("ASCEND_CUSTOM_OPP_PATH").unwrap_or_default();
        let vendors = listed("ASCEND_OPP_PATH").unwrap_or_default().into_iter().filter_map(|path| {
            let vendors = path.join("vendors").read_dir().ok()?;
            let mut vendors: Vec<_> = vendors.flatten().map(|entry| entry.path()).collect();
            vendors.sort();
            Some(vendors)
        });
        return own.into_iter().chain(vendors.flatten()).map(|path| path.join("op_api/lib")).collect();
    }
    let homes = ["ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"].into_iter().filter_map(listed).flatten();
    homes.map(|home| home.join("lib64")).collect()
}

/// The first file of that name that opens. Symbols are global, since the split libraries look for each other's.
fn open(library: Library, file: &str) -> Option<Handle> {
    let own = library == Library::Operators && file == "libcust_opapi.so";
    let paths = folders(file).into_iter().map(|folder| folder.join(file)).filter(|path| path.exists());
    let anywhere = (!own).then(|| PathBuf::from(file));
    paths.chain(anywhere).find_map(|path| {
        // SAFETY: the initialisers of CANN's libraries run; they are what the user installed to be loaded.
        unsafe { Handle::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }.ok()
    })
}

/// Whether an installed library defines `function`.
pub(super) fn defines(library: Library, function: &str) -> bool {
    address(library, function.as_bytes()).is_some()
}

fn address(library: Library, function: &[u8]) -> Option<*mut c_void> {
    library.opened().iter().find_map(|library| {
        // SAFETY: only the address is taken.
        let symbol = unsafe { library.get::<*mut c_void>(function) }.ok()?;
        Some(symbol.into_raw()).filter(|address| !address.is_null())
    })
}

/// A function that no library defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub function: &'static str,
    pub library: Library,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = self.library.files().join(", ");
        match self.library.found() {
            0 => write!(
                f,
                "`{}` needs CANN: none of {files} is installed, or ASCEND_HOME_PATH is not set",
                self.function
            ),
            _ => write!(f, "`{}` is not in this release of CANN (looked for in {files})", self.function),
        }
    }
}

impl std::error::Error for Missing {}

/// A C function of type `F`, a function pointer.
pub struct Function<F> {
    name: &'static CStr,
    library: Library,
    address: AtomicPtr<c_void>,
    of: PhantomData<F>,
}

impl<F: Copy> Function<F> {
    pub(super) const fn new(name: &'static CStr, library: Library) -> Function<F> {
        assert!(size_of::<F>() == size_of::<*mut c_void>(), "a function pointer");
        Function { name, library, address: AtomicPtr::new(std::ptr::null_mut()), of: PhantomData }
    }

    /// As the headers call it.
    pub fn name(&self) -> &'static str {
        self.name.to_str().expect("names are ASCII")
    }

    /// The function, looked for when this is first called and then known.
    ///
    /// # Errors
    /// If no installed library defines it.
    pub fn get(&self) -> Result<F, Missing> {
        let known = self.address.load(Ordering::Acquire);
        let address = if known.is_null() { self.find()? } else { known };
        // SAFETY: `F` is a function pointer (checked when the static was made), and the address is that of the function for
        // which the table states this type.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
    }

    #[cold]
    fn find(&self) -> Result<*mut c_void, Missing> {
        let address = address(self.library, self.name.to_bytes_with_nul());
        let address = address.ok_or(Missing { function: self.name(), library: self.library })?;
        self.address.store(address, Ordering::Release);
        Ok(address)
    }
}
