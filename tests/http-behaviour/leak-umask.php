<?php
// The mask for new files.
echo umask() === 0123 ? 'leaked' : 'clean';
umask(0123);
